/* removal_units.c - indices that must be removed together: a union-find forest over all indices. */
#include "removal_units.h"

#include "../base/arena.h"
#include "keep_sets_internal.h"

struct pare_removal_units {
    struct pare_keep_sets *k;
    int64_t *first;  /* by root of a set: offset of its indices */
    int64_t *parent; /* by index */
    uint8_t *frozen; /* by index: at roots, whether any index of the unit is kept */
    int64_t n;
};

static int64_t top(const struct pare_removal_units *t, int64_t i)
{
    for (; t->parent[i] != i; i = t->parent[i])
        t->parent[i] = t->parent[t->parent[i]];
    return i;
}

static void join(struct pare_removal_units *t, int64_t a, int64_t b)
{
    a = top(t, a);
    b = top(t, b);
    if (a == b)
        return;
    t->parent[a > b ? a : b] = a > b ? b : a;
    t->frozen[a > b ? b : a] |= t->frozen[a > b ? a : b];
}

/* The digit that loses values, of those that may: axes of values before virtual axes, so that a
 * convolution keeps its groups, and the last of them.  -1: none may. */
static int loser(const struct pare_keep_sets *k, const struct pare_keep_relation *r)
{
    int best = -1, rank = 0;

    for (int i = 0; i < r->tie.n_digits; i++) {
        const struct pare_digit *d = &r->tie.digit[i];
        int set = r->set[1 + i], mine = d->v ? 1 << 20 : 1 + d->axis;

        if (set < 0 || d->size == 1 || k->ones[set] == k->axis[set].size || mine < rank)
            continue;
        best = i;
        rank = mine;
    }
    return best;
}

static void join_digits(struct pare_removal_units *t, const struct pare_keep_relation *r)
{
    const struct pare_keep_sets *k = t->k;
    int lost = loser(k, r);
    int64_t size = k->axis[r->set[0]].size, below = 1, of;

    if (lost < 0)
        return;
    of = r->tie.digit[lost].size;
    for (int i = lost + 1; i < r->tie.n_digits; i++)
        below *= r->tie.digit[i].size;
    for (int64_t i = 0; i < size; i++)
        join(t, t->first[r->set[0]] + i, t->first[r->set[1 + lost]] + i / below % of);
}

static void join_picks(struct pare_removal_units *t, const struct pare_keep_relation *r)
{
    const struct pare_tied *s = &r->tie;

    for (int64_t i = 0; i < t->k->axis[r->set[1]].size; i++)
        join(t, t->first[r->set[1]] + i,
             t->first[r->set[0]] + (s->index ? s->index[i] : s->from + i));
}

#define PARAMETER (PARE_V_CONST | PARE_V_PARAM)

/* Whether index i of an axis is kept.  A list of parameters keeps its size (pare_tie_together), and
 * its elements are removed by being 0. */
static bool stays(const struct pare_keep_sets *k, const struct pare_value *v, int set, int64_t i)
{
    return !(v->flags & PARAMETER) && k->keep[set][i];
}

static void join_together(struct pare_removal_units *t, const struct pare_tied *s)
{
    int a = pare_keep_sets_find(t->k, s->a, s->ax), b = pare_keep_sets_find(t->k, s->b, s->bx);

    if (a < 0 || b < 0 || t->k->axis[a].size != t->k->axis[b].size)
        return;
    a = pare_keep_sets_root(t->k, a);
    b = pare_keep_sets_root(t->k, b);
    for (int64_t i = 0; i < t->k->axis[a].size; i++)
        if (!stays(t->k, s->a, a, i) && !stays(t->k, s->b, b, i)) {
            t->frozen[top(t, t->first[a] + i)] &= s->a->flags & PARAMETER ? 0 : 1;
            join(t, t->first[a] + i, t->first[b] + i);
        }
}

static int add_sets(struct pare_arena *a, struct pare_removal_units *t, struct pare_err *err)
{
    const struct pare_keep_sets *k = t->k;

    t->first = pare_alloc(a, (size_t)k->n_axes, sizeof(*t->first));
    if (!t->first)
        return pare_no_memory(err, "for the removal units");
    for (int i = 0; i < k->n_axes; i++)
        if (k->axis[i].parent == i) {
            t->first[i] = t->n;
            t->n += k->axis[i].size;
        }
    t->parent = pare_alloc_raw(a, (size_t)t->n, sizeof(*t->parent));
    t->frozen = pare_alloc(a, (size_t)t->n, 1);
    if (!t->parent || !t->frozen)
        return pare_no_memory(err, "for the removal units");
    for (int64_t i = 0; i < t->n; i++)
        t->parent[i] = i;
    for (int i = 0; i < k->n_axes; i++)
        for (int64_t x = 0; k->axis[i].parent == i && x < k->axis[i].size; x++)
            t->frozen[t->first[i] + x] = k->keep[i][x];
    return 0;
}

int pare_removal_units_new(struct pare_arena *a, struct pare_keep_sets *k,
                           struct pare_removal_units **units, struct pare_err *err)
{
    struct pare_removal_units *t = pare_alloc(a, 1, sizeof(*t));

    *units = t;
    if (!t)
        return pare_no_memory(err, "for the removal units");
    t->k = k;
    PARE_TRY(add_sets(a, t, err));
    for (int i = 0; i < k->n_rel; i++)
        if (k->rel[i].tie.kind == PARE_TIE_DIGITS || k->rel[i].tie.kind == PARE_TIE_GROUPS)
            join_digits(t, &k->rel[i]);
        else
            join_picks(t, &k->rel[i]);
    for (int i = 0; i < k->ties.n; i++)
        if (k->ties.tie[i].kind == PARE_TIE_TOGETHER)
            join_together(t, &k->ties.tie[i]);
    return 0;
}

int64_t pare_removal_unit(const struct pare_removal_units *t, const struct pare_value *v, int axis,
                          int64_t i)
{
    int a = pare_keep_sets_find(t->k, v, axis);

    if (a < 0 || i < 0 || i >= t->k->axis[a].size)
        return -1;
    return top(t, t->first[pare_keep_sets_root(t->k, a)] + i);
}

int64_t pare_removal_units_count(const struct pare_removal_units *t)
{
    return t->n;
}

bool pare_removal_unit_open(const struct pare_removal_units *t, int64_t unit)
{
    return !t->frozen[top(t, unit)];
}
