/* option_groups.c - distribute settings among several option tables. */
#include "option_groups.h"

#include <string.h>

#include "arena.h"

#define MAX_NAMES 256

static bool same_letter(char a, char b)
{
    return a == b || ((a == '-' || a == '_') && (b == '-' || b == '_'));
}

static bool same_name(const char *a, const char *b)
{
    while (*a && *b && same_letter(*a, *b)) {
        a++;
        b++;
    }
    return !*a && !*b;
}

const struct pare_opt *pare_option_group_find(const struct pare_option_group *p, const char *name)
{
    size_t n = strlen(p->kind);

    for (const struct pare_opt *o = p->opts; o && o->name; o++)
        if (same_name(o->name, name))
            return o;
    if (!strncmp(name, p->kind, n) && (name[n] == '-' || name[n] == '_'))
        for (const struct pare_opt *o = p->opts; o && o->name; o++)
            if (same_name(o->name, name + n + 1))
                return o;
    return NULL;
}

/* The earlier setting of this name, or a new one. */
static struct pare_setting *find_or_add_setting(struct pare_setting *set, int *n, const char *name)
{
    int i = 0;

    while (i < *n && strcmp(set[i].name, name) != 0)
        i++;
    if (i == *n)
        set[(*n)++] = (struct pare_setting){ .name = NULL };
    return &set[i];
}

/* Lists of strings grow with every occurrence; for other types the last one counts. */
static int add_setting(struct pare_setting *set, int *n, const struct pare_setting *s,
                       struct pare_arena *a, struct pare_err *err)
{
    struct pare_setting *to = find_or_add_setting(set, n, s->name), old = *to;
    const char **v;

    *to = *s;
    if (s->type != PARE_OPT_STRS || !old.name)
        return 0;
    v = pare_alloc(a, (size_t)old.strs.n + (size_t)s->strs.n, sizeof(*v));
    if (!v)
        return pare_no_memory(err, "for option '%s'", s->name);
    memcpy(v, old.strs.v, (size_t)old.strs.n * sizeof(*v));
    memcpy(v + old.strs.n, s->strs.v, (size_t)s->strs.n * sizeof(*v));
    to->strs = (struct pare_strs){ v, old.strs.n + s->strs.n };
    return 0;
}

int pare_option_group_fill(const struct pare_option_group *p, const struct pare_given *g, int n,
                           struct pare_arena *a, struct pare_err *err)
{
    struct pare_setting *set = pare_alloc(a, (size_t)n + 1, sizeof(*set)), one;
    int n_set = 0;

    if (!set)
        return pare_no_memory(err, "for options");
    for (int i = 0; i < n; i++) {
        const struct pare_opt *o = pare_option_group_find(p, g[i].name);

        if (!o)
            continue;
        PARE_TRY(pare_opt_parse(o, g[i].text, &one, a, err));
        PARE_TRY(add_setting(set, &n_set, &one, a, err));
    }
    return pare_opts_apply(p->opts, set, n_set, p->into, a, err);
}

/* ---- checks --------------------------------------------------------------------------- */

static const char *group_name(const struct pare_option_group *p)
{
    return p->name ? p->name : p->kind;
}

static int unknown_option(const struct pare_option_group *p, int n_parts, const char *name,
                          struct pare_err *err)
{
    const char *names[MAX_NAMES], *near;
    int n = 0;

    for (int i = 0; i < n_parts; i++)
        for (const struct pare_opt *o = p[i].opts; o && o->name && n < MAX_NAMES; o++)
            names[n++] = o->name;
    near = pare_nearest(name, names, n);
    return pare_fail(err, PARE_ECONFIG, "unknown option '%s'%s%s%s", name,
                     near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int group_not_chosen(const struct pare_option_group *owner,
                            const struct pare_option_group *p, int n_parts, const char *name,
                            struct pare_err *err)
{
    for (int i = 0; i < n_parts; i++)
        if (p[i].into && p[i].name && owner->name && !strcmp(p[i].kind, owner->kind))
            return pare_fail(err, PARE_ECONFIG,
                             "option '%s' belongs to the %s '%s', but the %s is '%s'", name,
                             owner->kind, owner->name, owner->kind, p[i].name);
    return pare_fail(err, PARE_ECONFIG, "option '%s' belongs to the %s%s%s, which is not used",
                     name, owner->kind, owner->name ? " " : "", owner->name ? owner->name : "");
}

int pare_option_groups_check(const struct pare_option_group *p, int n_parts,
                             const struct pare_given *g, int n, struct pare_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct pare_option_group *owner = NULL, *other = NULL;

        for (int k = 0; k < n_parts; k++) {
            if (!pare_option_group_find(&p[k], g[i].name))
                continue;
            if (!p[k].into)
                other = other ? other : &p[k];
            else if (owner)
                return pare_fail(err, PARE_ECONFIG,
                                 "option '%s' is ambiguous (%s or %s): use '%s-%s' or '%s-%s'",
                                 g[i].name, group_name(owner), group_name(&p[k]), owner->kind,
                                 g[i].name, p[k].kind, g[i].name);
            else
                owner = &p[k];
        }
        if (!owner && other)
            return group_not_chosen(other, p, n_parts, g[i].name, err);
        if (!owner)
            return unknown_option(p, n_parts, g[i].name, err);
    }
    return 0;
}

int pare_given_split(const char *text, struct pare_arena *a, struct pare_given **g, int *n,
                     struct pare_err *err)
{
    char *copy = pare_strdup(a, text ? text : ""), *save = NULL;

    *g = copy ? pare_alloc(a, strlen(copy) / 2 + 1, sizeof(**g)) : NULL;
    *n = 0;
    if (!*g)
        return pare_no_memory(err, "for the settings");
    for (char *w = strtok_r(copy, " \t\n", &save); w; w = strtok_r(NULL, " \t\n", &save)) {
        char *value = strchr(w, '=');

        if (value)
            *value++ = '\0';
        (*g)[(*n)++] = (struct pare_given){ w, value ? value : "true" };
    }
    return 0;
}

int pare_given_join(const struct pare_given *pair, int n_pairs, const char *words,
                    struct pare_arena *a, struct pare_given **g, int *n, struct pare_err *err)
{
    struct pare_given *more = NULL;
    int n_more = 0;

    PARE_TRY(pare_given_split(words, a, &more, &n_more, err));
    *n = n_pairs + n_more;
    *g = pare_alloc(a, (size_t)*n + 1, sizeof(**g));
    if (!*g)
        return pare_no_memory(err, "for the options");
    memcpy(*g, more, (size_t)n_more * sizeof(**g));
    if (n_pairs)
        memcpy(*g + n_more, pair, (size_t)n_pairs * sizeof(**g));
    return 0;
}
