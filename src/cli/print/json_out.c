/* json_out.c - print results as JSON; convert values to JSON. */
#include <math.h>

#include <jansson.h>

#include "../../io/file.h"
#include "../cli.h"

int pare_json_print(json_t *j, struct pare_err *err)
{
    int rc = j ? json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : -1;

    json_decref(j);
    if (rc)
        return pare_fail(err, PARE_ENOMEM, "cannot write the result as JSON");
    fputc('\n', stdout);
    return 0;
}

const char *pare_json_dump(struct pare_arena *a, const json_t *j, bool lines)
{
    size_t flags = JSON_REAL_PRECISION(9) | (lines ? JSON_INDENT(1) : JSON_COMPACT);
    size_t n = json_dumpb(j, NULL, 0, flags);
    char *text = n ? pare_alloc(a, n + 1, 1) : NULL;

    return text && json_dumpb(j, text, n, flags) == n ? text : NULL;
}

int pare_json_result(struct pare_cli *c, json_t *j, struct pare_err *err)
{
    if (!c->result || !j)
        return pare_json_print(j, err);
    *c->result = j;
    return 0;
}

json_t *pare_json_read(const char *path)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    const void *text = NULL;
    struct pare_err ignored;
    json_t *j = NULL;
    size_t n;

    if (a && !pare_file_read_most(a, path, PARE_JSON_BYTES, &text, &n, &ignored))
        j = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    pare_arena_free(a);
    return j;
}

json_t *pare_json_dims(const struct pare_tensor *t)
{
    json_t *a;

    if (t->dtype == PARE_NONE || t->rank < 0)
        return json_null();
    a = json_array();
    for (int i = 0; i < t->rank; i++)
        json_array_append_new(a, json_integer(t->dim[i]));
    return a;
}

json_t *pare_json_whole(double v)
{
    if (v < 0)
        return json_null();
    return v < 9e15 ? json_integer((json_int_t)v) : pare_json_real(v);
}

json_t *pare_json_text(const char *s)
{
    json_t *j = json_string(s);
    char buf[256];
    size_t n = 0;

    if (j)
        return j;
    for (; s[n] && n + 1 < sizeof(buf); n++)
        buf[n] = s[n] & 0x80 ? '?' : s[n];
    return json_stringn(buf, n);
}

json_t *pare_json_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}
