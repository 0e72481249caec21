/* json_write.c - JSON writer: a tree as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "json.h"

struct writer {
    struct pare_arena *arena;
    char *text;
    size_t len, cap;
    bool failed;
};

static void append_text(struct writer *w, const char *s)
{
    size_t n = s ? strlen(s) : 0;

    if (!s)
        w->failed = true;
    if (w->len + n + 1 > w->cap) {
        size_t cap = 2 * (w->len + n + 64);
        char *more = pare_alloc_raw(w->arena, cap, 1);

        if (!more) {
            w->failed = true;
            return;
        }
        if (w->len)
            memcpy(more, w->text, w->len);
        w->text = more;
        w->cap = cap;
    }
    if (n)
        memcpy(w->text + w->len, s, n);
    w->len += n;
    w->text[w->len] = '\0';
}

/* The shortest decimal that parses to the same number. */
static const char *real_text(struct pare_arena *a, double v)
{
    char buf[40];
    int digits = 15;

    do
        snprintf(buf, sizeof(buf), "%.*g", digits, v);
    while (strtod(buf, NULL) != v && ++digits < 18);
    return pare_strdup(a, buf);
}

static void write_value(struct writer *w, const struct pare_json *v)
{
    bool object = v->kind == PARE_JSON_OBJECT;

    switch (v->kind) {
    case PARE_JSON_NULL: append_text(w, "null"); return;
    case PARE_JSON_BOOL: append_text(w, v->yes ? "true" : "false"); return;
    case PARE_JSON_INT: append_text(w, pare_sprintf(w->arena, "%lld", (long long)v->whole)); return;
    case PARE_JSON_REAL: append_text(w, real_text(w->arena, v->num)); return;
    case PARE_JSON_STR: append_text(w, pare_json_quoted(w->arena, v->str)); return;
    case PARE_JSON_LIST:
    case PARE_JSON_OBJECT: break;
    }
    append_text(w, object ? "{" : "[");
    for (int i = 0; i < v->n; i++) {
        append_text(w, i ? "," : "");
        if (object) {
            append_text(w, pare_json_quoted(w->arena, v->item[i].key));
            append_text(w, ":");
        }
        write_value(w, &v->item[i]);
    }
    append_text(w, object ? "}" : "]");
}

const char *pare_json_write(struct pare_arena *a, const struct pare_json *v)
{
    struct writer w = { .arena = a };

    append_text(&w, "");
    write_value(&w, v);
    return w.failed ? NULL : w.text;
}

const struct pare_json *pare_json_get(const struct pare_json *v, const char *key)
{
    for (int i = 0; v && v->kind == PARE_JSON_OBJECT && i < v->n; i++)
        if (!strcmp(v->item[i].key, key))
            return &v->item[i];
    return NULL;
}
