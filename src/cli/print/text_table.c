/* text_table.c - numbers with units, and tables with aligned columns. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cli.h"
#include "../../base/arena.h"

#define LINE 80       /* columns of a wrapped table */
#define LEAST_WRAP 24 /* columns that the last column has at least */
#define MOST_NAME 26  /* columns of the first column; a longer name has a line to itself */

/* Three significant digits: 9.41, 94.1, 941. */
static void three_digits(double v, const char *unit, char *buf, size_t size)
{
    int after = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;

    snprintf(buf, size, "%.*f%s", after, v, unit);
}

const char *pare_count_text(double v, char *buf, size_t size)
{
    static const char *const unit[] = { "K", "M", "G", "T", "P", "E" };
    int k = -1;

    if (v < 0 || !isfinite(v)) {
        snprintf(buf, size, "-");
    } else if (v < 1000) {
        snprintf(buf, size, "%.0f", v);
    } else {
        for (; v >= 999.5 && k < 5; k++)
            v /= 1000;
        three_digits(v, unit[k], buf, size);
    }
    return buf;
}

const char *pare_whole_text(int64_t v, char *buf, size_t size)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRId64, v < 0 ? -v : v), at = 0;

    if (v < 0)
        buf[at++] = '-';
    for (int i = 0; i < n && (size_t)at + 2 < size; i++) {
        if (i && (n - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

const char *pare_bytes_text(double v, char *buf, size_t size)
{
    static const char *const unit[] = { " KB", " MB", " GB", " TB" };
    int k = -1;

    if (v < 1000) {
        snprintf(buf, size, "%.0f B", v);
        return buf;
    }
    for (; v >= 999.5 && k < 3; k++)
        v /= 1000;
    three_digits(v, unit[k], buf, size);
    return buf;
}

const char *pare_percent_text(double part, double whole, char *buf, size_t size)
{
    if (whole > 0 && part >= 0)
        snprintf(buf, size, "%.1f%%", 100 * part / whole);
    else
        snprintf(buf, size, "-");
    return buf;
}

const char *pare_time_text(double s, char *buf, size_t size)
{
    if (s < 0.9995e-3)
        three_digits(s * 1e6, " us", buf, size);
    else if (s < 0.9995)
        three_digits(s * 1e3, " ms", buf, size);
    else
        three_digits(s, " s", buf, size);
    return buf;
}

/* Length of the UTF-8 character at s in bytes; 0: not valid UTF-8. */
static int utf8_length(const unsigned char *s, uint32_t *code)
{
    int n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : 4;

    if (n == 4 && (*s < 0xf0 || *s > 0xf4))
        return 0;
    *code = n == 1 ? *s : *s & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (s[i] & 0x3fu);
    }
    if ((n == 3 && (*code < 0x800 || (*code >= 0xd800 && *code < 0xe000))) ||
        (n == 4 && (*code < 0x10000 || *code > 0x10ffff)))
        return 0;
    return n;
}

/* Control characters, and marks that change the direction of text. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void pare_put_clean(FILE *f, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    uint32_t code = 0;

    for (int n; *p; p += n ? n : 1) {
        n = utf8_length(p, &code);
        if (!n || is_control(code))
            fputc('?', f);
        else
            fwrite(p, 1, (size_t)n, f);
    }
}

/* ---- tables ---------------------------------------------------------------- */

struct row {
    const char **cell;
    struct row *next;
};

struct pare_table {
    struct pare_arena *arena;
    const char *align;
    int cols, *width;
    struct row *first, **end;
    bool broken; /* out of memory: nothing is printed */
};

/* Columns on a screen: continuation bytes of UTF-8 take none. */
static int width_of(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

struct pare_table *pare_table_new(struct pare_arena *a, const char *align)
{
    struct pare_table *t = pare_alloc(a, 1, sizeof(*t));

    if (!t)
        return NULL;
    t->arena = a;
    t->align = align;
    t->cols = (int)strlen(align);
    t->width = pare_alloc(a, (size_t)t->cols, sizeof(*t->width));
    t->end = &t->first;
    t->broken = !t->width;
    return t;
}

static void add_row(struct pare_table *t, const char **cell)
{
    struct row *r = pare_alloc(t->arena, 1, sizeof(*r));

    t->broken |= !r;
    for (int i = 0; i < t->cols && !t->broken; i++) {
        cell[i] = pare_strdup(t->arena, cell[i] ? cell[i] : "");
        t->broken = !cell[i];
        if (!t->broken && width_of(cell[i]) > t->width[i])
            t->width[i] = width_of(cell[i]);
    }
    if (t->broken)
        return;
    r->cell = cell;
    *t->end = r;
    t->end = &r->next;
}

void pare_table_row(struct pare_table *t, const char *cell, ...)
{
    const char **all = t ? pare_alloc(t->arena, (size_t)t->cols, sizeof(*all)) : NULL;
    va_list ap;

    if (t)
        t->broken |= !all;
    if (!t || t->broken)
        return;
    va_start(ap, cell);
    for (int i = 0; i < t->cols; i++)
        all[i] = i ? va_arg(ap, const char *) : cell;
    va_end(ap);
    add_row(t, all);
}

void pare_table_cells(struct pare_table *t, const char *const *cell)
{
    const char **all = t ? pare_alloc(t->arena, (size_t)t->cols, sizeof(*all)) : NULL;

    if (t)
        t->broken |= !all;
    if (!t || t->broken)
        return;
    memcpy(all, cell, (size_t)t->cols * sizeof(*all));
    add_row(t, all);
}

static bool use_color(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(fileno(f)) && (!no || !*no) && term && strcmp(term, "dumb") != 0;
}

/* Print text in a column that starts at `start`, broken into lines at blanks. */
static void print_wrapped(const char *s, int start, FILE *f)
{
    int room = LINE - start, at = 0;

    room = room < LEAST_WRAP ? LEAST_WRAP : room;
    while (*s) {
        size_t len = strcspn(s, " ");
        char word[512];

        snprintf(word, sizeof(word), "%.*s", (int)len, s);
        if (at && at + 1 + width_of(word) > room) {
            fprintf(f, "\n%*s", start, "");
            at = 0;
        }
        if (at)
            fputc(' ', f);
        pare_put_clean(f, word);
        at += width_of(word) + (at > 0);
        s += len;
        s += *s == ' ';
    }
}

static void print_row(const struct pare_table *t, const struct row *r, bool wrap, FILE *f)
{
    int last = t->cols - 1, pad = 0, start = 0;

    while (last > 0 && !*r->cell[last])
        last--;
    for (int i = 0; i <= last; i++) {
        int width = wrap && !i && t->width[0] > MOST_NAME ? MOST_NAME : t->width[i];
        int room = width - width_of(r->cell[i]);

        fprintf(f, "%*s", pad + (t->align[i] == 'r' ? room : 0), "");
        if (wrap && i > 0 && i == t->cols - 1)
            print_wrapped(r->cell[i], start, f);
        else
            pare_put_clean(f, r->cell[i]);
        start += width + 2;
        if (room < 0 && i < last)
            fprintf(f, "\n%*s", start - 2, "");
        pad = 2 + (t->align[i] == 'r' || room < 0 ? 0 : room);
    }
}

static void print_table(const struct pare_table *t, FILE *f, bool bold, bool wrap)
{
    if (!t || t->broken)
        return;
    for (const struct row *r = t->first; r; r = r->next) {
        if (r == t->first && bold)
            fputs("\033[1m", f);
        print_row(t, r, wrap, f);
        if (r == t->first && bold)
            fputs("\033[0m", f);
        fputc('\n', f);
    }
}

void pare_table_print(const struct pare_table *t, FILE *f)
{
    print_table(t, f, use_color(f), false);
}

void pare_table_plain(const struct pare_table *t, FILE *f)
{
    print_table(t, f, false, false);
}

void pare_table_wrap(const struct pare_table *t, FILE *f)
{
    print_table(t, f, use_color(f), true);
}
