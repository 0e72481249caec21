/* cost_files.c - times of layers as files of JSON lines. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cost_samples.h"

#include "../base/arena.h"
#include "../base/json.h"
#include "../io/file.h"

#define MOST_LINES (1 << 20)
#define MOST_CHANNELS (1 << 24)
#define MOST_US 1e9

static int read_count(const struct pare_json *v, const char *name, int64_t *to,
                      struct pare_err *err)
{
    const struct pare_json *x = pare_json_get(v, name);

    if (!x || x->kind != PARE_JSON_INT || x->whole < 0 || x->whole > MOST_CHANNELS)
        return pare_fail(err, PARE_EFORMAT, "'%s' must be an integer from 0 to %d", name,
                         MOST_CHANNELS);
    *to = x->whole;
    return 0;
}

static int read_line(struct pare_cost_samples *c, const struct pare_json *v, struct pare_err *err)
{
    const struct pare_json *key = pare_json_get(v, "key"), *format = pare_json_get(v, "format"),
                           *us = pare_json_get(v, "us");
    struct pare_cost_sample s = { .n = 1 };

    if (v->kind != PARE_JSON_OBJECT)
        return pare_fail(err, PARE_EFORMAT, "expected an object, found %s",
                         pare_json_kind_name(v->kind));
    if (!key || key->kind != PARE_JSON_STR || !*key->str || strlen(key->str) > 512)
        return pare_fail(err, PARE_EFORMAT, "'key' must be a text of 1 to 512 bytes");
    if (!format || format->kind != PARE_JSON_STR || !*format->str || strlen(format->str) > 32)
        return pare_fail(err, PARE_EFORMAT, "'format' must be a text of 1 to 32 bytes");
    if (!us || (us->kind != PARE_JSON_INT && us->kind != PARE_JSON_REAL) || us->num < 0 ||
        us->num > MOST_US)
        return pare_fail(err, PARE_EFORMAT, "'us' must be a number from 0 to %g", MOST_US);
    PARE_TRY(read_count(v, "cin", &s.cin, err));
    PARE_TRY(read_count(v, "cout", &s.cout, err));
    s.us = us->num;
    return pare_cost_samples_add(c, key->str, format->str, &s, err);
}

int pare_cost_samples_parse(struct pare_cost_samples *c, const char *text, size_t len,
                            struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_mark start = { 0 };
    int line = 1, rc = a ? 0 : pare_no_memory(err, "for a table of times");

    if (!rc)
        start = pare_mark(a);
    for (size_t at = 0; !rc && at < len; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        struct pare_json v;

        if (line > MOST_LINES)
            rc = pare_fail(err, PARE_ELIMIT, "more than %d lines", MOST_LINES);
        else if (n) {
            rc = pare_json_parse(a, text + at, n, &v, err);
            if (!rc)
                rc = read_line(c, &v, err);
            rc = pare_at(err, rc, "line %d", line);
            pare_rewind(a, start);
        }
        at += n + 1;
    }
    pare_arena_free(a);
    return rc;
}

int pare_cost_samples_read(struct pare_cost_samples *c, const char *path, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    const void *text;
    size_t len;
    int rc = a ? pare_file_read(a, path, &text, &len, err) : pare_no_memory(err, "for a table");

    if (!rc)
        rc = pare_at(err, pare_cost_samples_parse(c, text, len, err), "%s", path);
    pare_arena_free(a);
    return rc;
}

static int write_lines(const struct pare_cost_samples *c, FILE *f, struct pare_arena *a,
                       struct pare_err *err)
{
    for (int i = 0; i < c->n; i++) {
        const struct pare_cost_curve *x = c->curve[i];
        const char *key = pare_json_quoted(a, x->key), *format = pare_json_quoted(a, x->format);

        if (!key || !format)
            return pare_no_memory(err, "for a table of times");
        for (int k = 0; k < x->n; k++)
            fprintf(f,
                    "{\"key\": %s, \"cin\": %lld, \"cout\": %lld, \"format\": %s, \"us\": %.7g}\n",
                    key, (long long)x->s[k].cin, (long long)x->s[k].cout, format,
                    x->s[k].us / x->s[k].n);
    }
    return 0;
}

int pare_cost_samples_write(const struct pare_cost_samples *c, const char *path,
                            struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    const char *tmp = a ? pare_sprintf(a, "%s.%ld.tmp", path, (long)getpid()) : NULL;
    FILE *f = tmp ? fopen(tmp, "wx") : NULL;
    int rc = 0;

    if (!tmp)
        rc = pare_no_memory(err, "for a table of times");
    else if (!f)
        rc = pare_fail(err, PARE_EIO, "%s: cannot create: %s", path, strerror(errno));
    if (f) {
        rc = write_lines(c, f, a, err);
        if (fclose(f) && !rc)
            rc = pare_fail(err, PARE_EIO, "%s: cannot write: %s", path, strerror(errno));
        if (!rc)
            rc = pare_file_commit(tmp, path, err);
        if (rc)
            unlink(tmp);
    }
    pare_arena_free(a);
    return rc;
}
