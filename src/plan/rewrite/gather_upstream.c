/* gather_upstream.c - hoist Gather above row-wise operators so unused rows are never computed.
 *
 * A classifier over tokens reads one of them at its end: Gather(f(x)).  If f works on each row
 * independently, that is f(Gather(x)), and the products, norms and elementwise operators after the
 * last attention are computed only for the rows that are used.
 *
 * The elements of a value are viewed as (outer, T, inner), where T is the axis that the Gather
 * selects from, whatever shape the value has.  So `inner` tells which elements of a value are
 * needed, and views do not change it.  Walking backward from the Gather, a row-wise node joins the
 * region if its result is only read that way.  A Gather is inserted where values enter the region.
 */
#include "../plan.h"

#include <string.h>

#include "../../backend/backend.h"
#include "../../op/matrix/matrix.h"
#include "../../op/shape/movement.h"

#define LEAST_SAVED 2 /* at most one of this many rows is used, or the rewrite does not pay */
#define MOST_TRIED 64 /* Gathers; each takes a walk over the whole graph */

struct region {
    struct pare_graph *g;
    struct pare_node *pick; /* the Gather */
    int64_t T, count;       /* rows of its input, rows that it selects */
    int64_t *inner;         /* per value; 0: not reached from the Gather */
    int *uses, *wanted;     /* per value: its uses, its uses in the region */
    bool *member;           /* per node: it is in the region */
    int products;
};

/* What part of an operand a node needs for some rows of its result: all of it, some rows, or not
 * expressible. */
enum want { ODD, ALL, SOME };

static int64_t last_dim(const struct pare_value *v)
{
    return v->t.rank ? v->t.dim[v->t.rank - 1] : 1;
}

/* The axis of t that is T or contains it as a factor; -1: no single axis does. */
static int axis_of(const struct region *r, const struct pare_tensor *t, int64_t inner)
{
    int64_t after = 1;

    for (int a = t->rank - 1; a >= 0 && inner % after == 0; a--) {
        if (t->dim[a] * after % (r->T * inner) == 0)
            return a;
        after *= t->dim[a];
        if (!after)
            return -1;
    }
    return -1;
}

/* Product of (rows, K) to (rows, N): scale `inner` from N to K. */
static enum want of_rows(int64_t inner, int64_t K, int64_t N, int64_t *x)
{
    if (!N || !K || inner % N)
        return ODD;
    *x = inner / N * K;
    return SOME;
}

static enum want of_product(const struct pare_node *n, int k, int64_t inner, int64_t *x)
{
    const struct pare_tensor *a = &n->in[0]->t, *b = &n->in[1]->t;
    struct pare_gemm_attrs g;

    if (a->rank < 2 || b->rank != 2)
        return ODD;
    if (!pare_product_get(n, &g) || g.ta)
        return ODD;
    if (k == 2)
        return pare_numel(&n->in[2]->t) == last_dim(n->out[0]) && last_dim(n->in[2]) != 1 ? ALL
                                                                                          : ODD;
    return k ? ALL : of_rows(inner, last_dim(n->in[0]), last_dim(n->out[0]), x);
}

/* Broadcast operand: it has all axes up to T, or none of them. */
static enum want of_pair(const struct region *r, const struct pare_node *n, int k, int64_t inner,
                         int64_t *x)
{
    const struct pare_tensor *y = &n->out[0]->t, *t = &n->in[k]->t;
    const int axis = axis_of(r, y, inner), more = y->rank - t->rank;
    bool all = true, none = true;

    if (n->n_in != 2 || axis < 0)
        return ODD;
    for (int i = 0; i <= axis; i++) {
        int64_t d = i < more ? 1 : t->dim[i - more];

        all &= d == y->dim[i];
        none &= d == 1;
    }
    if (all && axis >= more)
        *x = inner / pare_span(y, axis + 1, y->rank) * pare_span(t, axis + 1 - more, t->rank);
    return all && axis >= more ? SOME : none ? ALL : ODD;
}

static enum want of_transpose(const struct region *r, const struct pare_node *n, int64_t inner,
                              int64_t *x)
{
    const struct pare_tensor *y = &n->out[0]->t, *t = &n->in[0]->t;
    const int axis = axis_of(r, y, inner);
    int perm[PARE_MAX_RANK];

    if (axis < 0 || y->dim[axis] != r->T || inner != pare_span(y, axis + 1, y->rank))
        return ODD;
    pare_transpose_perm(n, perm);
    *x = pare_span(t, perm[axis] + 1, t->rank);
    return SOME;
}

/* Operators that work on each row as a whole. */
static bool by_last_axis(const struct pare_node *n)
{
    int last = n->in[0]->t.rank - 1;

    return n->op->row_axis && n->op->row_axis(n) == last && n->out[0]->t.rank == last + 1;
}

static bool is_product(const struct pare_node *n)
{
    struct pare_gemm_attrs a;

    return pare_product_get(n, &a);
}

static enum want want(const struct region *r, const struct pare_node *n, int k, int64_t *x)
{
    const int64_t inner = r->inner[n->out[0]->id];

    *x = inner;
    if (is_product(n))
        return of_product(n, k, inner, x);
    if (pare_node_is(n, &pare_op_transpose))
        return of_transpose(r, n, inner, x);
    if (n->op->flags & PARE_OP_VIEW)
        return k ? ALL : SOME;
    if (n->op->map2)
        return of_pair(r, n, k, inner, x);
    if (n->op->map || n->op->flags & PARE_OP_ELEMENTWISE)
        return !k ? SOME : pare_is_const(n->in[k]) && pare_numel(&n->in[k]->t) == 1 ? ALL : ODD;
    if (n->in[0]->t.rank && by_last_axis(n))
        return k ? ALL : of_rows(inner, last_dim(n->in[0]), last_dim(n->out[0]), x);
    return ODD;
}

/* Can n compute only the needed rows of its result? */
static bool can_join(const struct region *r, const struct pare_node *n)
{
    const struct pare_value *y = n->out[0];
    int some = 0;

    if (!n->op || n->op->domain || n->n_cap || !n->n_in || y->flags & PARE_V_OUTPUT ||
        r->uses[y->id] != r->wanted[y->id] || axis_of(r, &y->t, r->inner[y->id]) < 0)
        return false;
    for (int k = 1; k < n->n_out; k++)
        if (n->out[k] && (r->uses[n->out[k]->id] || n->out[k]->flags & PARE_V_OUTPUT))
            return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k];
        int64_t inner;
        enum want w = v ? want(r, n, k, &inner) : ALL;

        if (w == ODD || (!k && !v) || (v && v->t.dtype == PARE_NONE))
            return false;
        if (w == SOME && (pare_is_fixed(v) || v->id >= r->g->n_values || r->g->value[v->id] != v ||
                          pare_numel(&v->t) % (r->T * inner)))
            return false;
        some += w == SOME;
    }
    return some > 0;
}

/* Add n to the region and mark its operands; false: one of them is needed in another way as well.
 */
static bool join(struct region *r, const struct pare_node *n)
{
    r->member[n->id] = true;
    r->products += is_product(n);
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k];
        int64_t inner;

        if (!v || want(r, n, k, &inner) != SOME)
            continue;
        if (r->inner[v->id] && r->inner[v->id] != inner)
            return false;
        r->inner[v->id] = inner;
        r->wanted[v->id]++;
    }
    return true;
}

/* Remove nodes that only move data where rows enter the region: hoisting over them saves nothing,
 * and other kernels may fuse them. */
static void trim(struct region *r)
{
    for (int i = 0; i < r->pick->id; i++) {
        const struct pare_node *n = r->g->node[i];

        if (r->member[i] && n->op->flags & (PARE_OP_VIEW | PARE_OP_MOVES))
            r->member[i] = n->in[0]->maker && r->member[n->in[0]->maker->id];
    }
}

/* Find the nodes that can compute fewer rows; false: the rewrite does not pay. */
static bool find(struct region *r)
{
    const struct pare_value *x = r->pick->in[0];

    r->inner[x->id] = pare_span(&x->t, pare_gather_axis(r->pick) + 1, x->t.rank);
    r->wanted[x->id] = 1;
    for (int i = r->pick->id - 1; i >= 0; i--) {
        const struct pare_node *n = r->g->node[i];

        if (n->n_out && n->out[0] && r->inner[n->out[0]->id] && can_join(r, n) && !join(r, n))
            return false;
    }
    trim(r);
    return r->products > 0;
}

/* ---- rewriting the graph ----------------------------------------------------------------- */

static struct pare_value *fresh(const struct region *r, const struct pare_value *of,
                                const char *what, struct pare_err *err)
{
    const char *name = pare_sprintf(r->g->arena, "%s %s %s", of->name, what, r->pick->out[0]->name);

    while (name && pare_graph_find(r->g, name))
        name = pare_sprintf(r->g->arena, "%s+", name);
    if (name)
        return pare_graph_value(r->g, name, err);
    pare_no_memory(err, "for the plan");
    return NULL;
}

/* Make n a Reshape of x to y's shape. */
static int reshape(const struct region *r, struct pare_node *n, struct pare_value *x,
                   struct pare_value *y, struct pare_err *err)
{
    struct pare_value *shape = fresh(r, y, "shape for", err);

    n->op = &pare_op_reshape;
    n->attr = shape ? pare_alloc(r->g->arena, 1, n->op->attr_size) : NULL;
    if (!shape)
        return err->code;
    shape->t = (struct pare_tensor){ .dtype = PARE_I64, .rank = 1, .dim = { y->t.rank } };
    shape->flags = PARE_V_CONST;
    PARE_TRY(pare_tensor_alloc(r->g->arena, &shape->t, err));
    if (!n->attr)
        return pare_no_memory(err, "for the plan");
    memcpy(shape->t.data, y->t.dim, (size_t)y->t.rank * sizeof(*y->t.dim));
    n->type = n->op->type;
    n->name = y->name;
    n->version = 13;
    n->in[0] = x;
    n->in[1] = shape;
    n->out[0] = y;
    y->maker = n;
    return 0;
}

static void make_smaller(const struct region *r, struct pare_tensor *t, int64_t inner)
{
    int axis = axis_of(r, t, inner);

    t->dim[axis] = t->dim[axis] / r->T * r->count;
}

/* Add the nodes that select the needed rows of v: Reshape to (outer, T, inner), Gather, Reshape to
 * v's rank. */
static int choose(const struct region *r, struct pare_value *v, struct pare_value **to,
                  struct pare_err *err)
{
    const int64_t inner = r->inner[v->id];
    struct pare_value *seen = fresh(r, v, "as rows for", err);
    struct pare_value *some = seen ? fresh(r, v, "rows of", err) : NULL;
    struct pare_node *first = some ? pare_graph_add(r->g, 2, 1, err) : NULL;
    struct pare_node *pick = first ? pare_graph_add(r->g, 2, 1, err) : NULL;
    struct pare_node *last = pick ? pare_graph_add(r->g, 2, 1, err) : NULL;
    struct pare_gather *attr = pare_alloc(r->g->arena, 1, sizeof(*attr));

    *to = last ? fresh(r, v, "chosen for", err) : NULL;
    if (!*to)
        return err->code;
    if (!attr)
        return pare_no_memory(err, "for the plan");
    seen->t = (struct pare_tensor){ .dtype = v->t.dtype,
                                    .rank = 3,
                                    .dim = { pare_numel(&v->t) / (r->T * inner), r->T, inner } };
    some->t = seen->t;
    some->t.dim[1] = r->count;
    (*to)->t = v->t;
    (*to)->t.data = NULL;
    make_smaller(r, &(*to)->t, inner);
    attr->axis = 1;
    pick->op = r->pick->op;
    pick->type = r->pick->type;
    pick->name = r->pick->name;
    pick->version = r->pick->version;
    pick->attr = attr;
    pick->in[0] = seen;
    pick->in[1] = r->pick->in[1];
    pick->out[0] = some;
    some->maker = pick;
    PARE_TRY(reshape(r, first, v, seen, err));
    return reshape(r, last, some, *to, err);
}

/* Replace operands from outside the region by their selected rows. */
static int enter(const struct region *r, struct pare_node *n, struct pare_value **chosen,
                 struct pare_err *err)
{
    for (int k = 0; k < n->n_in; k++) {
        struct pare_value *v = n->in[k];
        int64_t inner;

        if (!v || want(r, n, k, &inner) != SOME || (v->maker && r->member[v->maker->id]))
            continue;
        if (!chosen[v->id])
            PARE_TRY(choose(r, v, &chosen[v->id], err));
        n->in[k] = chosen[v->id];
    }
    return 0;
}

static int change(struct region *r, struct pare_err *err)
{
    const int n_nodes = r->g->n_nodes;
    struct pare_value **chosen, *x = r->pick->in[0];
    struct pare_node *n;

    chosen = pare_alloc(r->g->arena, (size_t)r->g->n_values, sizeof(struct pare_value *));
    if (!chosen)
        return pare_no_memory(err, "for the plan");
    for (int i = 0; i < n_nodes; i++)
        if (r->member[i])
            PARE_TRY(enter(r, r->g->node[i], chosen, err));
    for (int i = 0; i < n_nodes; i++) {
        n = r->g->node[i];
        if (!r->member[i])
            continue;
        make_smaller(r, &n->out[0]->t, r->inner[n->out[0]->id]);
        if (pare_node_is(n, &pare_op_reshape))
            PARE_TRY(reshape(r, n, n->in[0], n->out[0], err));
    }
    PARE_TRY(reshape(r, r->pick, x, r->pick->out[0], err));
    return pare_graph_order(r->g, err);
}

/* A Gather of few rows with constant indices? */
static bool picks(const struct pare_node *n)
{
    const struct pare_tensor *x;

    if (!pare_node_is(n, &pare_op_gather) || n->in[0]->t.dtype == PARE_NONE ||
        pare_is_fixed(n->in[0]) || !pare_is_const(n->in[1]) || !pare_numel(&n->in[0]->t) ||
        !pare_numel(&n->in[1]->t))
        return false;
    x = &n->in[0]->t;
    return pare_numel(&n->in[1]->t) <= x->dim[pare_gather_axis(n)] / LEAST_SAVED;
}

static int try_one(struct pare_plan *p, struct pare_node *n, struct pare_err *err)
{
    struct pare_graph *g = p->graph;
    const size_t values = (size_t)g->n_values, nodes = (size_t)g->n_nodes;
    struct region r = {
        .g = g,
        .pick = n,
        .T = n->in[0]->t.dim[pare_gather_axis(n)],
        .count = pare_numel(&n->in[1]->t),
        .inner = pare_alloc(p->scratch, values, sizeof(*r.inner)),
        .uses = pare_alloc(p->scratch, values, sizeof(*r.uses)),
        .wanted = pare_alloc(p->scratch, values, sizeof(*r.wanted)),
        .member = pare_alloc(p->scratch, nodes, sizeof(*r.member)),
    };

    if (!r.inner || !r.uses || !r.wanted || !r.member)
        return pare_no_memory(err, "for the plan");
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in + g->node[i]->n_cap; k++) {
            const struct pare_node *m = g->node[i];
            const struct pare_value *v = k < m->n_in ? m->in[k] : m->cap[k - m->n_in];

            if (v && v->id < g->n_values && g->value[v->id] == v)
                r.uses[v->id]++;
        }
    return find(&r) ? change(&r, err) : 0;
}

int pare_plan_gather_upstream(struct pare_plan *p, struct pare_err *err)
{
    int tried = 0;

    for (int i = 0; i < p->graph->n_nodes && tried < MOST_TRIED; i++) {
        struct pare_node *n = p->graph->node[i];
        struct pare_mark mark = pare_mark(p->scratch);
        int rc;

        if (!picks(n))
            continue;
        rc = try_one(p, n, err);
        pare_reset(p->scratch, mark);
        if (rc)
            return rc;
        i = n->id;
        tried++;
    }
    return 0;
}
