/* dependency_groups.c - which units of which layers go together. */
#include "dependency_groups.h"

#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../graph/removal_units.h"
#include "../graph/layer.h"

/* A unit of a layer, and what it is part of. */
struct member {
    int64_t atom, unit;
    int layer;
};

/* The members of an atom: `n` of them in a row. */
struct bundle {
    const struct member *m;
    int n;
};

bool pare_layer_by_channels(const struct pare_layer *l)
{
    return l->out_axis >= 0 && l->prune->units.n == l->w.dim[l->out_axis] &&
           l->prune->units.grid[l->out_axis] == l->prune->units.n;
}

static int by_atom(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->atom != y->atom)
        return x->atom < y->atom ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* 0 when both are in the same layers. */
static int compare_layers(const struct bundle *x, const struct bundle *y)
{
    for (int i = 0; i < x->n && i < y->n; i++)
        if (x->m[i].layer != y->m[i].layer)
            return x->m[i].layer < y->m[i].layer ? -1 : 1;
    return x->n < y->n ? -1 : x->n > y->n;
}

static int by_layers(const void *a, const void *b)
{
    const struct bundle *x = a, *y = b;
    int c = compare_layers(x, y);

    return c ? c : x->m[0].unit < y->m[0].unit ? -1 : x->m[0].unit > y->m[0].unit;
}

/* All units of layers by channels, atom by atom. */
static int list_members(struct pare_compression *r, const struct pare_removal_units *atoms,
                        struct member **list, int64_t *n, struct pare_err *err)
{
    int64_t most = 0, next = pare_removal_units_count(atoms);

    for (int i = 0; i < r->n_layers; i++)
        most += pare_layer_by_channels(&r->layer[i]) ? r->layer[i].prune->units.n : 0;
    *n = 0;
    *list = pare_alloc(r->scratch, (size_t)most, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "to find out which channels go together");
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer *l = &r->layer[i];
        const struct pare_value *w = pare_value_root(l->info.weight);

        for (int64_t u = 0; pare_layer_by_channels(l) && u < l->prune->units.n; u++) {
            int64_t atom = pare_removal_unit(atoms, w, l->out_axis, u);

            /* Of an unknown shape: on its own. */
            (*list)[(*n)++] = (struct member){ atom < 0 ? next++ : atom, u, i };
        }
    }
    qsort(*list, (size_t)*n, sizeof(**list), by_atom);
    return 0;
}

static int list_bundles(struct pare_compression *r, const struct member *m, int64_t n_members,
                        struct bundle **list, int64_t *n, struct pare_err *err)
{
    *n = 0;
    *list = pare_alloc(r->scratch, (size_t)n_members, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "to find out which channels go together");
    for (int64_t i = 0; i < n_members; i++) {
        if (!i || m[i].atom != m[i - 1].atom)
            (*list)[(*n)++] = (struct bundle){ &m[i], 0 };
        (*list)[*n - 1].n++;
    }
    qsort(*list, (size_t)*n, sizeof(**list), by_layers);
    return 0;
}

static int fill(struct pare_arena *a, const struct bundle *b, int64_t n,
                struct pare_unit_groups *to, struct pare_err *err)
{
    to->n = n;
    to->n_layers = b->n;
    to->layer = pare_alloc(a, (size_t)b->n, sizeof(*to->layer));
    to->unit = pare_alloc(a, (size_t)n * (size_t)b->n, sizeof(*to->unit));
    if (!to->layer || !to->unit)
        return pare_no_memory(err, "to find out which channels go together");
    for (int k = 0; k < b->n; k++)
        to->layer[k] = b->m[k].layer;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < b->n; k++)
            to->unit[i * b->n + k] = b[i].m[k].unit;
    return 0;
}

/* Constants that are shared by chance couple nothing; those with masks do. */
static int take_apart(struct pare_compression *r, struct pare_err *err)
{
    const struct pare_value **weight = pare_alloc(r->scratch, (size_t)r->n_layers, sizeof(*weight));

    if (!weight)
        return pare_no_memory(err, "to find out which channels go together");
    for (int i = 0; i < r->n_layers; i++)
        weight[i] = pare_value_root(r->layer[i].info.weight);
    return pare_graph_unshare(r->graph, weight, r->n_layers, err);
}

static int divide(struct pare_compression *r, struct pare_dependency_groups *d,
                  struct pare_err *err)
{
    struct pare_keep_sets *kept;
    struct pare_removal_units *atoms;
    struct member *m;
    struct bundle *b;
    int64_t n_members, n, from = 0;

    PARE_TRY(take_apart(r, err));
    PARE_TRY(pare_keep_sets_new(r->scratch, r->graph, &kept, err));
    PARE_TRY(pare_removal_units_new(r->scratch, kept, &atoms, err));
    PARE_TRY(list_members(r, atoms, &m, &n_members, err));
    PARE_TRY(list_bundles(r, m, n_members, &b, &n, err));
    d->list = pare_alloc(r->arena, (size_t)n, sizeof(*d->list));
    if (!d->list)
        return pare_no_memory(err, "to find out which channels go together");
    for (int64_t i = 1; i <= n; i++)
        if (i == n || compare_layers(&b[i], &b[i - 1])) {
            PARE_TRY(fill(r->arena, b + from, i - from, &d->list[d->n++], err));
            from = i;
        }
    return 0;
}

int pare_compression_groups(struct pare_compression *r, const struct pare_dependency_groups **d,
                            struct pare_err *err)
{
    struct pare_mark m = pare_mark(r->scratch);
    struct pare_dependency_groups *new;
    int rc;

    *d = r->prune->groups;
    if (*d)
        return 0;
    new = pare_alloc(r->arena, 1, sizeof(*new));
    if (!new)
        return pare_no_memory(err, "to find out which channels go together");
    rc = divide(r, new, err);
    pare_reset(r->scratch, m);
    if (!rc)
        *d = r->prune->groups = new;
    return rc;
}
