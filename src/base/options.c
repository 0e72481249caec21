/* options.c - option tables: fill a struct from settings, with type and range checks. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_name[] = {
    [PARE_OPT_BOOL] = "true or false",
    [PARE_OPT_INT] = "a whole number",
    [PARE_OPT_FLOAT] = "a number",
    [PARE_OPT_STR] = "text",
    [PARE_OPT_INTS] = "a list of whole numbers, such as 32,32",
    [PARE_OPT_FLOATS] = "a list of numbers, such as 0.5,0.5",
    [PARE_OPT_STRS] = "a list of texts",
    [PARE_OPT_TENSOR] = "a tensor",
    [PARE_OPT_GRAPH] = "a graph",
};

const struct pare_opt *pare_opt_find(const struct pare_opt *opts, const char *name)
{
    for (; opts && opts->name; opts++)
        if (!strcmp(opts->name, name))
            return opts;
    return NULL;
}

/* Edits between names of up to 63 characters: insertions, deletions, substitutions, swaps of
 * neighbors.  Longer names have a large distance. */
static int distance(const char *a, const char *b)
{
    int row[3][64], m = (int)strlen(a), n = (int)strlen(b);

    if (m > 63 || n > 63)
        return 99;
    for (int i = 0; i <= m; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];

        now[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = i ? last[j - 1] + (a[i - 1] != b[j - 1]) : j;

            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i)
                best = last[j] + 1 < best ? last[j] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
            now[j] = best;
        }
    }
    return row[m % 3][n];
}

const char *pare_nearest(const char *typed, const char *const *names, int n)
{
    int limit = ((int)strlen(typed + strspn(typed, "-")) + 1) / 3;
    const char *best = NULL;

    for (int i = 0; i < n; i++) {
        int d = distance(typed, names[i]);

        if (d <= limit) {
            best = names[i];
            limit = d - 1;
        }
    }
    return best;
}

const char *pare_opt_hint(const struct pare_opt *opts, const char *typed, char *buf, size_t size)
{
    const char *names[128], *best;
    int n = 0;

    for (; opts && opts->name && n < 128; opts++)
        names[n++] = opts->name;
    best = pare_nearest(typed, names, n);
    buf[0] = '\0';
    if (best)
        snprintf(buf, size, " (did you mean '%s'?)", best);
    return buf;
}

static int in_range(const struct pare_opt *o, double v, struct pare_err *err)
{
    if (v >= o->min && v <= o->max)
        return 0;
    return pare_fail(err, PARE_ECONFIG, "option '%s' is %.10g, must be in [%.10g, %.10g]", o->name,
                     v, o->min, o->max);
}

static int is_choice(const struct pare_opt *o, const char *s, struct pare_err *err)
{
    size_t len = strlen(s);

    for (const char *p = o->choices; p;) {
        const char *bar = strchr(p, '|');
        size_t n = bar ? (size_t)(bar - p) : strlen(p);

        if (n == len && !memcmp(p, s, n))
            return 0;
        p = bar ? bar + 1 : NULL;
    }
    if (!o->choices)
        return 0;
    return pare_fail(err, PARE_ECONFIG, "option '%s' is '%s', must be one of %s", o->name, s,
                     o->choices);
}

static int wrong_type(const struct pare_opt *o, struct pare_err *err)
{
    return pare_fail(err, PARE_ECONFIG, "option '%s' must be %s", o->name, type_name[o->type]);
}

static int store_floats(const struct pare_opt *o, const struct pare_setting *s, char *p,
                        struct pare_arena *a, struct pare_err *err)
{
    struct pare_floats f = s->floats;

    if (s->type == PARE_OPT_INTS) {
        double *v = pare_alloc(a, (size_t)s->ints.n, sizeof(*v));

        if (!v)
            return pare_no_memory(err, "for option '%s'", o->name);
        for (int i = 0; i < s->ints.n; i++)
            v[i] = (double)s->ints.v[i];
        f = (struct pare_floats){ v, s->ints.n };
    } else if (s->type != PARE_OPT_FLOATS) {
        return wrong_type(o, err);
    }
    for (int i = 0; i < f.n; i++)
        PARE_TRY(in_range(o, f.v[i], err));
    memcpy(p, &f, sizeof(f));
    return 0;
}

static int store_number(const struct pare_opt *o, const struct pare_setting *s, char *p,
                        struct pare_err *err)
{
    double v = s->type == PARE_OPT_INT ? (double)s->whole : s->num;
    int64_t whole = s->type == PARE_OPT_INT ? s->whole : 0;

    if (s->type != PARE_OPT_INT && s->type != PARE_OPT_FLOAT && s->type != PARE_OPT_BOOL)
        return wrong_type(o, err);
    if (o->type == PARE_OPT_BOOL) {
        *(bool *)p = v != 0;
        return 0;
    }
    PARE_TRY(in_range(o, v, err));
    if (o->type == PARE_OPT_FLOAT) {
        *(double *)p = v;
        return 0;
    }
    if (s->type == PARE_OPT_FLOAT) {
        if (v < -9e15 || v > 9e15 || (double)(int64_t)v != v)
            return wrong_type(o, err);
        whole = (int64_t)v;
    } else if (s->type == PARE_OPT_BOOL) {
        whole = v != 0;
    }
    *(int64_t *)p = whole;
    return 0;
}

static int store(const struct pare_opt *o, const struct pare_setting *s, void *into,
                 struct pare_arena *a, struct pare_err *err)
{
    char *p = (char *)into + o->offset;

    switch (o->type) {
    case PARE_OPT_BOOL:
    case PARE_OPT_INT:
    case PARE_OPT_FLOAT: return store_number(o, s, p, err);
    case PARE_OPT_FLOATS: return store_floats(o, s, p, a, err);
    default: break;
    }
    if (s->type != o->type)
        return wrong_type(o, err);
    switch (o->type) {
    case PARE_OPT_STR:
        PARE_TRY(is_choice(o, s->str, err));
        *(const char **)p = s->str;
        break;
    case PARE_OPT_INTS:
        for (int i = 0; i < s->ints.n; i++)
            PARE_TRY(in_range(o, (double)s->ints.v[i], err));
        *(struct pare_ints *)p = s->ints;
        break;
    case PARE_OPT_STRS:
        for (int i = 0; i < s->strs.n; i++)
            PARE_TRY(is_choice(o, s->strs.v[i], err));
        *(struct pare_strs *)p = s->strs;
        break;
    case PARE_OPT_TENSOR: *(const struct pare_tensor **)p = s->tensor; break;
    case PARE_OPT_GRAPH: *(struct pare_graph **)p = s->graph; break;
    default: break;
    }
    return 0;
}

static void store_default(const struct pare_opt *o, void *into)
{
    char *p = (char *)into + o->offset;

    switch (o->type) {
    case PARE_OPT_BOOL: *(bool *)p = o->def != 0; break;
    case PARE_OPT_INT: *(int64_t *)p = (int64_t)o->def; break;
    case PARE_OPT_FLOAT: *(double *)p = o->def; break;
    case PARE_OPT_STR: *(const char **)p = o->str; break;
    default: break; /* lists, tensors and graphs start empty: the struct is zeroed */
    }
}

int pare_opts_apply(const struct pare_opt *opts, const struct pare_setting *set, int n_set,
                    void *into, struct pare_arena *a, struct pare_err *err)
{
    const struct pare_opt *o;
    char hint[128];

    for (o = opts; o && o->name; o++)
        store_default(o, into);
    for (int i = 0; i < n_set; i++) {
        o = pare_opt_find(opts, set[i].name);
        if (!o)
            return pare_fail(err, PARE_ECONFIG, "unknown option '%s'%s", set[i].name,
                             pare_opt_hint(opts, set[i].name, hint, sizeof(hint)));
        PARE_TRY(store(o, &set[i], into, a, err));
    }
    for (o = opts; o && o->name; o++) {
        int i = 0;

        while (i < n_set && strcmp(set[i].name, o->name))
            i++;
        if (o->required && i == n_set)
            return pare_fail(err, PARE_ECONFIG, "option '%s' is missing", o->name);
    }
    return 0;
}

static int parse_list(const struct pare_opt *o, const char *text, struct pare_setting *set,
                      struct pare_arena *a, struct pare_err *err)
{
    char *copy = pare_alloc(a, strlen(text) + 1, 1), *save = NULL;
    size_t max = strlen(text) / 2 + 1;
    int64_t *ints = pare_alloc(a, max, sizeof(*ints));
    double *floats = pare_alloc(a, max, sizeof(*floats));
    const char **strs = pare_alloc(a, max, sizeof(*strs));
    int n = 0;

    if (!copy || !ints || !floats || !strs)
        return pare_no_memory(err, "for option '%s'", o->name);
    memcpy(copy, text, strlen(text) + 1);
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        char *end = w;

        strs[n] = w;
        if (o->type == PARE_OPT_INTS)
            ints[n] = strtoll(w, &end, 10);
        else if (o->type == PARE_OPT_FLOATS)
            floats[n] = strtod(w, &end);
        if (o->type != PARE_OPT_STRS && (end == w || *end))
            return pare_fail(err, PARE_ECONFIG, "option '%s' is '%s', must be %s", o->name, text,
                             type_name[o->type]);
        n++;
    }
    set->type = o->type;
    set->ints = (struct pare_ints){ ints, n };
    set->floats = (struct pare_floats){ floats, n };
    set->strs = (struct pare_strs){ strs, n };
    return 0;
}

int pare_opt_parse(const struct pare_opt *o, const char *text, struct pare_setting *set,
                   struct pare_arena *a, struct pare_err *err)
{
    char *end = NULL;

    *set = (struct pare_setting){ .name = o->name, .type = o->type, .str = text };
    switch (o->type) {
    case PARE_OPT_STR: return 0;
    case PARE_OPT_BOOL:
        set->num = !strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "1");
        if (set->num != 0 || !strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "0"))
            return 0;
        break;
    case PARE_OPT_INT:
        errno = 0;
        set->whole = strtoll(text, &end, 10);
        if (end != text && !*end && !errno)
            return 0;
        break;
    case PARE_OPT_FLOAT:
        set->num = strtod(text, &end);
        if (end != text && !*end)
            return 0;
        break;
    case PARE_OPT_INTS:
    case PARE_OPT_FLOATS:
    case PARE_OPT_STRS: return parse_list(o, text, set, a, err);
    default: break;
    }
    return pare_fail(err, PARE_ECONFIG, "option '%s' is '%s', must be %s", o->name, text,
                     type_name[o->type]);
}
