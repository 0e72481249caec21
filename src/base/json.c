/* json.c - JSON parser: a tree in an arena, with the line of each value for messages. */
#include "json.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "arena.h"
#include "limits.h"

/* Jansson does not report the position of values.  The text is valid after parsing, so a cursor
 * that follows the tree in text order finds the line of each value. */
struct reader {
    struct pare_arena *arena;
    const char *p, *end;
    int line;
};

const char *pare_json_kind_name(enum pare_json_kind k)
{
    static const char *const name[] = {
        [PARE_JSON_NULL] = "null",        [PARE_JSON_BOOL] = "true or false",
        [PARE_JSON_INT] = "a number",     [PARE_JSON_REAL] = "a number",
        [PARE_JSON_STR] = "a text",       [PARE_JSON_LIST] = "a list",
        [PARE_JSON_OBJECT] = "an object",
    };

    return name[k];
}

/* Advance to the beginning of the next key or value. */
static void skip_between(struct reader *r)
{
    for (; r->p < r->end && strchr(" \t\r\n,:]}", *r->p); r->p++)
        r->line += *r->p == '\n';
}

static void skip_string(struct reader *r)
{
    if (r->p < r->end)
        r->p++;
    while (r->p < r->end && *r->p != '"')
        r->p += *r->p == '\\' && r->end - r->p > 1 ? 2 : 1;
    if (r->p < r->end)
        r->p++;
}

static void skip_value(struct reader *r)
{
    if (r->p < r->end && *r->p == '"')
        skip_string(r);
    else if (r->p < r->end && strchr("[{", *r->p))
        r->p++;
    else
        while (r->p < r->end && (isalnum((unsigned char)*r->p) || strchr("+-.", *r->p)))
            r->p++;
}

static int read_value(struct reader *r, json_t *j, int depth, struct pare_json *v,
                      struct pare_err *err);

static int read_items(struct reader *r, json_t *j, int depth, struct pare_json *v,
                      struct pare_err *err)
{
    size_t n = json_is_array(j) ? json_array_size(j) : json_object_size(j);
    void *it = json_object_iter(j);

    if (depth == PARE_JSON_DEPTH)
        return pare_fail(err, PARE_ELIMIT, "line %d: nested too deep, at most %d levels", v->line,
                         PARE_JSON_DEPTH);
    v->item = pare_alloc(r->arena, n, sizeof(*v->item));
    if (n > INT32_MAX || (n && !v->item))
        return pare_no_memory(err, "for a list of %zu values", n);
    for (v->n = 0; v->n < (int)n; v->n++) {
        struct pare_json *item = &v->item[v->n];
        json_t *child = it ? json_object_iter_value(it) : json_array_get(j, (size_t)v->n);

        if (it) {
            item->key = pare_strdup(r->arena, json_object_iter_key(it));
            if (!item->key)
                return pare_no_memory(err, "for a key");
            skip_between(r);
            skip_string(r);
            it = json_object_iter_next(j, it);
        }
        PARE_TRY(read_value(r, child, depth + 1, item, err));
    }
    return 0;
}

static int read_value(struct reader *r, json_t *j, int depth, struct pare_json *v,
                      struct pare_err *err)
{
    skip_between(r);
    v->line = r->line;
    skip_value(r);
    switch (json_typeof(j)) {
    case JSON_NULL: v->kind = PARE_JSON_NULL; return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        v->kind = PARE_JSON_BOOL;
        v->yes = json_is_true(j);
        return 0;
    case JSON_INTEGER:
        v->kind = PARE_JSON_INT;
        v->whole = json_integer_value(j);
        v->num = (double)v->whole;
        return 0;
    case JSON_REAL:
        v->kind = PARE_JSON_REAL;
        v->num = json_real_value(j);
        return 0;
    case JSON_STRING:
        v->kind = PARE_JSON_STR;
        v->str = pare_strdup(r->arena, json_string_value(j));
        return v->str ? 0 : pare_no_memory(err, "for a text");
    case JSON_ARRAY: v->kind = PARE_JSON_LIST; break;
    case JSON_OBJECT: v->kind = PARE_JSON_OBJECT; break;
    }
    return read_items(r, j, depth, v, err);
}

/* Hints for Python syntax in JSON. */
static const char *hint(const char *why)
{
    static const struct {
        const char *near, *hint;
    } habits[] = {
        { "'", " (strings need \"double quotes\")" },
        { "True", " (write true)" },
        { "False", " (write false)" },
        { "None", " (write null)" },
        { "NaN", " (JSON has no such number)" },
        { "nan", " (JSON has no such number)" },
        { "Infinity", " (JSON has no such number)" },
        { "-Infinity", " (JSON has no such number)" },
        { "#", " (JSON has no comments)" },
        { "/", " (JSON has no comments)" },
        { "]", " (is there an extra comma before it?)" },
        { "}", " (is there an extra comma before it?)" },
    };
    const char *near = strstr(why, " near '");

    for (size_t i = 0; near && i < sizeof(habits) / sizeof(*habits); i++)
        if (!strncmp(near + 7, habits[i].near, strlen(habits[i].near)))
            return habits[i].hint;
    return "";
}

int pare_json_parse(struct pare_arena *a, const char *text, size_t len, struct pare_json *root,
                    struct pare_err *err)
{
    struct reader r = { .arena = a, .p = text, .end = text + len, .line = 1 };
    json_error_t why;
    json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    int rc;

    *root = (struct pare_json){ 0 };
    if (!j)
        return pare_fail(err, PARE_EFORMAT, "line %d, column %d: not JSON: %s%s", why.line,
                         why.column,
                         strstr(why.text, "ALLOW_NUL") ? "a string contains \\u0000" : why.text,
                         hint(why.text));
    rc = read_value(&r, j, 0, root, err);
    json_decref(j);
    return rc;
}

const char *pare_json_quoted(struct pare_arena *a, const char *text)
{
    json_t *j = json_string(text);
    size_t len = j ? json_dumpb(j, NULL, 0, JSON_ENCODE_ANY) : 3;
    char *to = pare_alloc(a, len + 1, 1);

    if (to && j)
        json_dumpb(j, to, len, JSON_ENCODE_ANY);
    else if (to)
        memcpy(to, "\"?\"", 4);
    json_decref(j);
    return to;
}
