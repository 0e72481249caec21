/* dependency_groups.c - dependency groups: units of coupled layers that must be removed
 * together. */
#include "dependency_groups.h"

#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../graph/free_dims.h"
#include "../graph/removal_units.h"
#include "../graph/layer.h"
#include "../graph/pattern/pattern.h"
#include "../onnx/body_model.h"

/* One unit of one layer, and the removal unit of the graph that contains it. */
struct member {
    int64_t removal_unit, unit;
    int layer;
    bool follows;
};

/* One dependency group: `n` consecutive members with the same removal unit. */
struct group {
    const struct member *m;
    int n;
};

bool pare_layer_by_channels(const struct pare_layer *l)
{
    const struct pare_units *u = &l->prune->units;
    int64_t gates = l->info.node->op ? l->info.node->op->layer.gates : 0;

    return l->out_axis >= 0 && u->n * (gates ? gates : 1) == l->w.dim[l->out_axis] &&
           pare_units_of_channel(u, &l->w, l->out_axis, 0) == 0;
}

bool pare_layer_is_joined(const struct pare_layer *l)
{
    return l->has_second && pare_layer_by_channels(l) && pare_layer_by_channels(l + 1);
}

static int by_removal_unit(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->removal_unit != y->removal_unit)
        return x->removal_unit < y->removal_unit ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* Returns 0 if both groups are in the same layers. */
static int compare_layers(const struct group *x, const struct group *y)
{
    for (int i = 0; i < x->n && i < y->n; i++)
        if (x->m[i].layer != y->m[i].layer)
            return x->m[i].layer < y->m[i].layer ? -1 : 1;
    return x->n < y->n ? -1 : x->n > y->n;
}

static int by_layers(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int c = compare_layers(x, y);

    return c ? c : x->m[0].unit < y->m[0].unit ? -1 : x->m[0].unit > y->m[0].unit;
}

/* ---- the main graph and the bodies ----------------------------------------------------------- */

/* One of the graphs that layers are in. */
struct part {
    const struct pare_removal_units *units;
    const struct pare_value **weight; /* by layer; NULL: another graph reads it */
    int64_t first;                    /* of its removal units in all parts */
};

/* All of them; a weight that several read joins their removal units. */
struct parts {
    struct part *part;
    int n;
    int64_t *parent; /* union-find forest, by removal unit */
    int64_t units;
};

static int64_t top_of(const struct parts *p, int64_t i)
{
    for (; p->parent[i] != i; i = p->parent[i])
        p->parent[i] = p->parent[p->parent[i]];
    return i;
}

/* The removal unit of unit u of layer i; -1: unknown.  *open: it can be removed in all graphs. */
static int64_t removal_unit_of(const struct parts *p, int i, int axis, int64_t u, bool *open)
{
    int64_t all = -1;

    *open = true;
    for (int k = 0; k < p->n; k++) {
        const struct part *t = &p->part[k];
        int64_t unit = t->weight[i] ? pare_removal_unit(t->units, t->weight[i], axis, u) : -1;

        if (unit < 0)
            continue;
        *open &= pare_removal_unit_open(t->units, unit);
        unit = top_of(p, t->first + unit);
        if (all >= 0 && all != unit)
            p->parent[unit] = all;
        else
            all = unit;
    }
    return all;
}

static bool is_read(const struct pare_graph *g, const struct pare_value *v)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == v)
                return true;
    return false;
}

static int add_part(struct pare_compression *r, struct parts *p, struct pare_graph *g,
                    struct pare_removal_units *units, struct pare_err *err)
{
    struct part *t = &p->part[p->n++];

    PARE_TRY(pare_layer_weights(r, g, &t->weight, err));
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_value *v = t->weight[i];

        if (v && r->layer[i].info.body && !is_read(g, v))
            t->weight[i] = NULL;
    }
    if (!units)
        PARE_TRY(pare_graph_units(r, g, t->weight, r->n_layers, &units, err));
    t->units = units;
    t->first = p->units;
    p->units += pare_removal_units_count(units);
    return 0;
}

static int find_parts(struct pare_compression *r, struct pare_graph *g,
                      const struct pare_body_graph *bodies, struct parts *p, struct pare_err *err)
{
    int n = 1;

    for (const struct pare_body_graph *b = bodies; b; b = b->next)
        n++;
    p->part = pare_alloc(r->scratch, (size_t)n, sizeof(*p->part));
    if (!p->part)
        return pare_no_memory(err, "for dependency groups");
    PARE_TRY(add_part(r, p, g, r->prune->units, err));
    for (const struct pare_body_graph *b = bodies; b; b = b->next)
        PARE_TRY(add_part(r, p, b->g, NULL, err));
    p->parent = pare_alloc(r->scratch, (size_t)p->units + 1, sizeof(*p->parent));
    if (!p->parent)
        return pare_no_memory(err, "for dependency groups");
    for (int64_t i = 0; i < p->units; i++)
        p->parent[i] = i;
    return 0;
}

/* Join what layers in several graphs have in common, before any unit is asked for. */
static void join_parts(const struct pare_compression *r, const struct parts *p)
{
    bool open;

    for (int i = 0; i < r->n_layers && p->n > 1; i++)
        for (int64_t u = 0; pare_layer_by_channels(&r->layer[i]) && u < r->layer[i].prune->units.n;
             u++)
            removal_unit_of(p, i, r->layer[i].out_axis, u, &open);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Lists the units of all layers pruned by channels, sorted by removal unit. */
static int list_members(struct pare_compression *r, const struct parts *parts, struct member **list,
                        int64_t *n, struct pare_err *err)
{
    int64_t most = 0, next = parts->units;

    for (int i = 0; i < r->n_layers; i++)
        most += pare_layer_by_channels(&r->layer[i]) ? r->layer[i].prune->units.n : 0;
    *n = 0;
    *list = pare_alloc(r->scratch, (size_t)most, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for dependency groups");
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer *l = &r->layer[i];

        int64_t joined = l->is_second && pare_layer_is_joined(l - 1) ? l->prune->units.n : 0;

        for (int64_t u = 0; pare_layer_by_channels(l) && u < l->prune->units.n; u++) {
            bool open;
            int64_t removal_unit = removal_unit_of(parts, i, l->out_axis, u, &open);

            /* The second weight follows the first, which precedes it in the list.  A unit of
             * unknown shape is a dependency group of its own. */
            if (joined)
                removal_unit = (*list)[*n - joined].removal_unit;
            else if (removal_unit < 0)
                removal_unit = next++;
            else if (l->prune->follows && !open)
                continue;
            (*list)[(*n)++] = (struct member){ removal_unit, u, i, l->prune->follows };
        }
    }
    qsort(*list, (size_t)*n, sizeof(**list), by_removal_unit);
    return 0;
}

/* Drop the groups of followers only: there is nothing to follow. */
static void drop_alone(struct member *m, int64_t *n)
{
    int64_t kept = 0;

    for (int64_t from = 0, to = 0; from < *n; from = to) {
        bool alone = true;

        for (to = from; to < *n && m[to].removal_unit == m[from].removal_unit; to++)
            alone &= m[to].follows;
        for (int64_t i = from; !alone && i < to; i++)
            m[kept++] = m[i];
    }
    *n = kept;
}

static int list_groups(struct pare_compression *r, const struct member *m, int64_t n_members,
                       struct group **list, int64_t *n, struct pare_err *err)
{
    *n = 0;
    *list = pare_alloc(r->scratch, (size_t)n_members, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for dependency groups");
    for (int64_t i = 0; i < n_members; i++) {
        if (!i || m[i].removal_unit != m[i - 1].removal_unit)
            (*list)[(*n)++] = (struct group){ &m[i], 0 };
        (*list)[*n - 1].n++;
    }
    qsort(*list, (size_t)*n, sizeof(**list), by_layers);
    return 0;
}

static int fill_groups(struct pare_arena *a, const struct group *b, int64_t n,
                       struct pare_unit_groups *to, struct pare_err *err)
{
    to->n = n;
    to->n_layers = b->n;
    to->layer = pare_alloc(a, (size_t)b->n, sizeof(*to->layer));
    to->unit = pare_alloc(a, (size_t)n * (size_t)b->n, sizeof(*to->unit));
    if (!to->layer || !to->unit)
        return pare_no_memory(err, "for dependency groups");
    for (int k = 0; k < b->n; k++)
        to->layer[k] = b->m[k].layer;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < b->n; k++)
            to->unit[i * b->n + k] = b[i].m[k].unit;
    return 0;
}

int pare_graph_to_group(struct pare_compression *r, struct pare_arena *a,
                        struct pare_all_sizes *all, struct pare_err *err)
{
    const struct pare_size_arenas to = { r->scratch, r->scratch, r->scratch, a };
    const struct pare_io *io;

    pare_model_inputs(r->model, &io);
    *all = (struct pare_all_sizes){ 0 };
    PARE_TRY(pare_graph_all_sizes_in(&to, r->model->graph, io, NULL, all, err));
    return pare_graph_canonical_axes(all->g, err);
}

int pare_graph_units(struct pare_compression *r, struct pare_graph *g,
                     const struct pare_value *const *weight, int n,
                     struct pare_removal_units **units, struct pare_err *err)
{
    struct pare_keep_sets *kept;

    PARE_TRY(pare_graph_unshare(g, weight, n, err));
    PARE_TRY(pare_keep_sets_new(r->scratch, g, &kept, err));
    return pare_removal_units_new(r->scratch, kept, units, err);
}

int pare_layer_weights(struct pare_compression *r, const struct pare_graph *g,
                       const struct pare_value ***weight, struct pare_err *err)
{
    *weight = pare_alloc(r->scratch, (size_t)r->n_layers, sizeof(**weight));
    if (!*weight)
        return pare_no_memory(err, "for dependency groups");
    for (int i = 0; i < r->n_layers; i++)
        (*weight)[i] = pare_map_get(&g->names, pare_value_root(r->layer[i].info.weight)->name);
    return 0;
}

static int find_members(struct pare_compression *r, struct member **m, int64_t *n,
                        struct pare_err *err)
{
    struct pare_graph *g = r->prune->graph;
    struct pare_body_graph *bodies = NULL;
    struct pare_all_sizes all;
    struct parts parts = { 0 };
    bool inside = false;
    int rc;

    for (int i = 0; i < r->n_layers; i++)
        inside |= r->layer[i].info.body != NULL;
    if (!g) {
        PARE_TRY(pare_graph_to_group(r, r->scratch, &all, err));
        g = all.g;
    }
    if (inside)
        PARE_TRY(pare_body_graphs_new(r->scratch, r->model, g, &bodies, err));
    rc = find_parts(r, g, bodies, &parts, err);
    if (!rc) {
        join_parts(r, &parts);
        rc = list_members(r, &parts, m, n, err);
    }
    pare_body_graphs_free(bodies);
    return rc;
}

static int find_groups(struct pare_compression *r, struct pare_dependency_groups *d,
                       struct pare_err *err)
{
    struct member *m;
    struct group *b;
    int64_t n_members, n, from = 0;

    PARE_TRY(find_members(r, &m, &n_members, err));
    drop_alone(m, &n_members);
    PARE_TRY(list_groups(r, m, n_members, &b, &n, err));
    d->list = pare_alloc(r->arena, (size_t)n, sizeof(*d->list));
    if (!d->list)
        return pare_no_memory(err, "for dependency groups");
    for (int64_t i = 1; i <= n; i++)
        if (i == n || compare_layers(&b[i], &b[i - 1])) {
            PARE_TRY(fill_groups(r->arena, b + from, i - from, &d->list[d->n++], err));
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
        return pare_no_memory(err, "for dependency groups");
    rc = find_groups(r, new, err);
    pare_reset(r->scratch, m);
    if (!rc)
        *d = r->prune->groups = new;
    return rc;
}
