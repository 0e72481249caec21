/* page.c - HTML output: a growing text in which everything from files is escaped. */
#include "page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"

/* ---- text ----------------------------------------------------------------------------------- */

void pare_page_bytes(struct pare_page *p, const char *html, size_t n)
{
    if (p->failed)
        return;
    if (p->len + n + 1 > p->cap) {
        size_t cap = 2 * (p->len + n) + 4096;
        char *more = pare_alloc_raw(p->arena, cap, 1);

        if (!more) {
            p->failed = true;
            return;
        }
        if (p->len)
            memcpy(more, p->text, p->len);
        p->text = more;
        p->cap = cap;
    }
    memcpy(p->text + p->len, html, n);
    p->len += n;
    p->text[p->len] = '\0';
}

void pare_page_raw(struct pare_page *p, const char *html)
{
    pare_page_bytes(p, html, strlen(html));
}

void pare_page_put(struct pare_page *p, const char *fmt, ...)
{
    char buf[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(buf, sizeof(buf), fmt, ap);
    va_end(ap);
    pare_page_raw(p, buf);
}

void pare_page_text(struct pare_page *p, const char *s)
{
    for (; s && *s; s++) {
        switch (*s) {
        case '<': pare_page_raw(p, "&lt;"); break;
        case '>': pare_page_raw(p, "&gt;"); break;
        case '&': pare_page_raw(p, "&amp;"); break;
        case '"': pare_page_raw(p, "&quot;"); break;
        case '\'': pare_page_raw(p, "&#39;"); break;
        default: pare_page_bytes(p, s, 1);
        }
    }
}

/* In JSON, <, > and & occur only inside strings, where \u003c means the same. */
static void script_safe(struct pare_page *p, const char *s)
{
    for (; s && *s; s++) {
        if (*s == '<' || *s == '>' || *s == '&')
            pare_page_put(p, "\\u%04x", (unsigned)*s);
        else
            pare_page_bytes(p, s, 1);
    }
}

void pare_page_json(struct pare_page *p, const struct pare_json *j)
{
    const char *text = pare_json_write(p->arena, j);

    p->failed |= !text;
    script_safe(p, text);
}

void pare_page_quoted(struct pare_page *p, const char *s)
{
    const char *text = pare_json_quoted(p->arena, s ? s : "");

    p->failed |= !text;
    script_safe(p, text);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Three digits and a letter: 980, 9.41K, 11.7M. */
static void short_text(double v, double base, const char *const *letter, char *buf, size_t size)
{
    int i = 0;

    for (; v >= base * 0.9995 && letter[i + 1]; i++)
        v /= base;
    if (!i)
        snprintf(buf, size, "%.0f%s", v, letter[i]);
    else
        snprintf(buf, size, "%.*f%s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, letter[i]);
}

const char *pare_unit_text(double v, enum pare_unit u, char *buf, size_t size)
{
    static const char *const counts[] = { "", "K", "M", "G", "T", NULL };
    static const char *const bytes[] = { " B", " KB", " MB", " GB", " TB", NULL };
    static const char *const times[] = { " ns", " \xc2\xb5s", " ms", " s", NULL };

    if (isnan(v))
        snprintf(buf, size, "\xe2\x80\x93");
    else if (u == PARE_SHARE)
        snprintf(buf, size, "%.2f %%", 100 * v);
    else if (u == PARE_COUNT)
        short_text(v, 1000, counts, buf, size);
    else if (u == PARE_BYTES)
        short_text(v, 1000, bytes, buf, size);
    else if (u == PARE_SECONDS)
        short_text(1e9 * v, 1000, times, buf, size);
    else if (u == PARE_DB)
        snprintf(buf, size, "%.1f dB", v);
    else
        snprintf(buf, size, "%.4g", v);
    return buf;
}

void pare_page_cell(struct pare_page *p, double v, enum pare_unit u)
{
    char buf[PARE_UNIT_TEXT];

    if (isnan(v))
        pare_page_raw(p, "<td class=\"n\">\xe2\x80\x93</td>");
    else
        pare_page_put(p, "<td class=\"n\" data-v=\"%.9g\">%s</td>", v,
                      pare_unit_text(v, u, buf, sizeof(buf)));
}

void pare_page_text_cell(struct pare_page *p, const char *s)
{
    pare_page_raw(p, "<td>");
    if (s)
        pare_page_text(p, s);
    else
        pare_page_raw(p, "\xe2\x80\x93");
    pare_page_raw(p, "</td>");
}

/* ---- run.json ------------------------------------------------------------------------------- */

const struct pare_json *pare_at_path(const struct pare_json *j, const char *path)
{
    while (j && *path) {
        char key[64];
        size_t n = strcspn(path, ".");

        snprintf(key, sizeof(key), "%.*s", (int)n, path);
        j = pare_json_get(j, key);
        path += n + (path[n] == '.');
    }
    return j;
}

double pare_number(const struct pare_json *j, const char *path)
{
    const struct pare_json *v = pare_at_path(j, path);

    return v && (v->kind == PARE_JSON_INT || v->kind == PARE_JSON_REAL) ? v->num : NAN;
}

const char *pare_words(const struct pare_json *j, const char *path)
{
    const struct pare_json *v = pare_at_path(j, path);

    return v && v->kind == PARE_JSON_STR ? v->str : NULL;
}

/* ---- charts --------------------------------------------------------------------------------- */

void pare_page_chart(struct pare_page *p, const struct pare_chart *c)
{
    int id = p->charts++;

    pare_page_put(p, "<figure class=\"chart\"><canvas id=\"c%d\" role=\"img\" aria-label=\"", id);
    pare_page_text(p, c->title);
    pare_page_raw(p,
                  "\"></canvas></figure>\n<script type=\"application/json\" class=\"chart-data\" ");
    pare_page_put(p, "data-for=\"c%d\">{\"x\":", id);
    pare_page_quoted(p, c->x);
    pare_page_raw(p, ",\"y\":");
    pare_page_quoted(p, c->y);
    pare_page_put(p, ",\"log\":%s,\"percent\":%s,\"lines\":[", c->log_x ? "true" : "false",
                  c->percent_y ? "true" : "false");
    for (int i = 0; i < c->n; i++) {
        bool first = true;

        pare_page_raw(p, i ? ",{\"label\":" : "{\"label\":");
        pare_page_quoted(p, c->line[i].label);
        pare_page_raw(p, ",\"data\":[");
        for (int k = 0; k < c->line[i].n; k++) {
            if (!isfinite(c->line[i].x[k]) || !isfinite(c->line[i].y[k]))
                continue;
            pare_page_put(p, "%s{\"x\":%.9g,\"y\":%.9g}", first ? "" : ",", c->line[i].x[k],
                          c->line[i].y[k]);
            first = false;
        }
        pare_page_raw(p, "]}");
    }
    pare_page_raw(p, "]}</script>\n");
}
