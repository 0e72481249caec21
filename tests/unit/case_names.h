/* case_names.h - golden cases whose names describe them: "adam,beta1=0.8|f32" in a .npz file.
 *
 * Before the bar: an algorithm and its options; after it: an array of the case.  A slash in a
 * value stands for the comma of a list.
 */
#ifndef PARE_TESTS_CASE_NAMES_H
#define PARE_TESTS_CASE_NAMES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/options.h"
#include "io/npz.h"

struct case_name {
    const char *name, *field; /* "adam", "f32" */
    const char *key[16], *value[16];
    int n;
};

static inline struct case_name parse_case_name(struct pare_arena *a, const char *text)
{
    char *s = pare_strdup(a, text), *bar = strchr(s, '|');
    struct case_name c = { .name = s, .field = "" };

    if (bar) {
        *bar = '\0';
        c.field = bar + 1;
    }
    for (char *p = strchr(s, ','); p; p = strchr(p, ',')) {
        char *eq = strchr(p, '=');

        *p++ = '\0';
        assert_true(eq && c.n < 16);
        *eq = '\0';
        c.key[c.n] = p;
        c.value[c.n++] = p = eq + 1;
    }
    for (char *p = s; p < s + strlen(text); p++)
        if (*p == '/')
            *p = ',';
    return c;
}

/* Remove and return the value of a key that is not an option; NULL if it does not exist. */
static inline const char *case_take(struct case_name *c, const char *key)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->key[i], key)) {
            const char *v = c->value[i];

            c->n--;
            c->key[i] = c->key[c->n];
            c->value[i] = c->value[c->n];
            return v;
        }
    return NULL;
}

/* A struct filled from the remaining keys. */
static inline void *case_conf(struct pare_arena *a, const struct case_name *c,
                              const struct pare_opt *opts, size_t size)
{
    struct pare_setting set[16];
    struct pare_err err;
    void *conf = pare_alloc(a, size, 1);

    for (int i = 0; i < c->n; i++) {
        const struct pare_opt *o = pare_opt_find(opts, c->key[i]);

        assert_non_null(o);
        assert_int_equal(pare_opt_parse(o, c->value[i], &set[i], a, &err), 0);
    }
    assert_int_equal(pare_opts_apply(opts, set, c->n, conf, a, &err), 0);
    return conf;
}

static inline struct pare_named *read_cases(struct pare_arena *a, const char *path, int *n)
{
    struct pare_named *list;
    struct pare_err err;

    if (pare_npz_read(a, path, &list, n, &err))
        fail_msg("%s: %s", path, err.msg);
    return list;
}

static inline const struct pare_tensor *find_case_array(const struct pare_named *list, int n,
                                                        const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i].t;
    fail_msg("no '%s' in the file", name);
    return NULL;
}

#endif
