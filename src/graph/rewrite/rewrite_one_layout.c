/* rewrite_one_layout.c - remove Transposes around nodes that work in any order of axes, such as
 * models with channels last (NHWC) that exporters of TensorFlow write around convolutions.
 *
 * Nodes that accept any order of axes (axis_order.h) and share values form a region.  If its values
 * had another order, Transposes where values enter or leave the region would vanish, and others
 * would be needed.  The order is changed if that moves fewer bytes, with no more Transposes.
 */
#include <string.h>

#include "../../base/arena.h"
#include "../../op/shape/movement.h"
#include "axis_order.h"

#define ORDERS 4 /* that are considered for a region */

struct region {
    int rank, n_orders;
    struct {
        int perm[PARE_MAX_RANK]; /* of the Transposes into the region: value = Transpose(new) */
        double bytes;
    } order[ORDERS];
    const int *perm; /* the best order; NULL: none */
    int inverse[PARE_MAX_RANK];
    double gain; /* bytes that Transposes need not move, less those of new ones */
    int nodes;   /* Transposes that vanish, less new ones */
    bool flips, refused;
};

/* Where a value of a region that changes its order meets other nodes. */
struct border {
    const struct pare_node *by; /* a node near it */
    bool enters, leaves;        /* it enters, or is read, in the old order */
};

struct search {
    struct pare_rewriter *r;
    int n_values, n_nodes;
    int *parent;              /* per value: of a union-find forest */
    bool *inside;             /* per value: a node of a region reads or makes it */
    bool *outside;            /* per value: something else reads it, other than a Transpose */
    bool *member;             /* per node: it belongs to a region */
    struct region **region;   /* per value that is a root */
    struct pare_value **twin; /* per value: the same in the new order */
    struct border *border;    /* per value */
};

/* ---- regions --------------------------------------------------------------------------------- */

static int root_of(const struct search *s, int v)
{
    while (s->parent[v] != v)
        v = s->parent[v] = s->parent[s->parent[v]];
    return v;
}

static struct region *region_of(const struct search *s, const struct pare_value *v)
{
    if (!v || v->id >= s->n_values || s->r->g->value[v->id] != v || !s->inside[v->id])
        return NULL;
    return s->region[root_of(s, v->id)];
}

static int open_search(struct search *s, struct pare_err *err)
{
    struct pare_arena *a = s->r->scratch;
    const size_t n = (size_t)s->n_values + 1;

    s->parent = pare_alloc(a, n, sizeof(*s->parent));
    s->inside = pare_alloc(a, n, sizeof(*s->inside));
    s->outside = pare_alloc(a, n, sizeof(*s->outside));
    s->region = pare_alloc(a, n, sizeof(struct region *));
    s->twin = pare_alloc(a, n, sizeof(struct pare_value *));
    s->border = pare_alloc(a, n, sizeof(*s->border));
    s->member = pare_alloc(a, (size_t)s->n_nodes + 1, sizeof(*s->member));
    if (!s->parent || !s->inside || !s->outside || !s->region || !s->twin || !s->border ||
        !s->member)
        return pare_no_memory(err, "to rewrite the graph");
    for (int i = 0; i < s->n_values; i++) {
        s->parent[i] = i;
        s->outside[i] = s->r->pinned[i];
    }
    return 0;
}

static void unite(const struct search *s, const struct pare_value *a, const struct pare_value *b)
{
    s->inside[a->id] = s->inside[b->id] = true;
    s->parent[root_of(s, a->id)] = root_of(s, b->id);
}

static bool is_known(const struct pare_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && (n->in[k]->t.rank < 0 || n->in[k]->t.dtype == PARE_NONE))
            return false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && (n->out[k]->t.rank < 0 || n->out[k]->t.dtype == PARE_NONE))
            return false;
    return true;
}

/* Find the nodes of regions. */
static int find_members(struct search *s, struct pare_err *err)
{
    const struct pare_graph *g = s->r->g;

    for (int i = 0; i < s->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        s->member[i] = n->op && is_known(n) && pare_any_axis_order(s->r, n);
        for (int k = 0; s->member[i] && k < n->n_in; k++)
            if (pare_has_axis_order(n, k))
                unite(s, n->in[k], n->out[0]);
        for (int k = 1; s->member[i] && k < n->n_out; k++)
            unite(s, n->out[k], n->out[0]);
    }
    for (int i = 0; i < s->n_values; i++) {
        struct region **at = s->inside[i] ? &s->region[root_of(s, i)] : NULL;

        if (!at || *at)
            continue;
        *at = pare_alloc(s->r->scratch, 1, sizeof(**at));
        if (!*at)
            return pare_no_memory(err, "to rewrite the graph");
        (*at)->rank = g->value[i]->t.rank;
    }
    return 0;
}

static double bytes_of(const struct pare_value *v)
{
    return (double)pare_numel(&v->t) * (double)pare_dtype_size(v->t.dtype);
}

static void propose(struct region *g, const int *perm, double bytes)
{
    int i = 0;

    while (i < g->n_orders && memcmp(g->order[i].perm, perm, (size_t)g->rank * sizeof(*perm)) != 0)
        i++;
    if (i == ORDERS)
        return;
    if (i == g->n_orders) {
        memcpy(g->order[i].perm, perm, (size_t)g->rank * sizeof(*perm));
        g->n_orders++;
    }
    g->order[i].bytes += bytes;
}

static void invert(const int *perm, int rank, int *inverse)
{
    for (int i = 0; i < rank; i++)
        inverse[perm[i]] = i;
}

/* Orders of the Transposes at the borders of regions. */
static void find_orders(const struct search *s)
{
    int perm[PARE_MAX_RANK], inverse[PARE_MAX_RANK];

    for (int i = 0; i < s->n_nodes; i++) {
        const struct pare_node *n = s->r->g->node[i];
        struct region *g;

        if (s->member[i] || !pare_node_is(n, &pare_op_transpose) || !is_known(n))
            continue;
        pare_transpose_perm(n, perm);
        if ((g = region_of(s, n->out[0])))
            propose(g, perm, bytes_of(n->out[0]));
        if ((g = region_of(s, n->in[0]))) {
            invert(perm, g->rank, inverse);
            propose(g, inverse, bytes_of(n->in[0]));
        }
    }
}

static void choose(struct region *g)
{
    int best = 0;

    for (int i = 1; i < g->n_orders; i++)
        if (g->order[i].bytes > g->order[best].bytes)
            best = i;
    if (!g->n_orders)
        return;
    g->perm = g->order[best].perm;
    invert(g->perm, g->rank, g->inverse);
}

/* Does the node read its input in the new order of this region, if it has one? */
static bool absorbs(const struct region *g, const struct pare_node *n)
{
    return g && g->perm && is_known(n) && pare_absorbs_order(n, g->perm);
}

/* Which values are read in their old order. */
static void find_outside(const struct search *s)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const struct pare_node *n = s->r->g->node[i];

        if (s->member[i] || (pare_node_is(n, &pare_op_transpose) && is_known(n)))
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (region_of(s, n->in[k]) && (k || !absorbs(region_of(s, n->in[k]), n)))
                s->outside[n->in[k]->id] = true;
    }
}

/* ---- what an order saves --------------------------------------------------------------------- */

/* Does a Transpose from the new order make v? */
static bool enters_transposed(const struct region *g, const struct pare_value *v)
{
    const struct pare_node *n = v->maker;
    int perm[PARE_MAX_RANK];

    if (!pare_node_is(n, &pare_op_transpose) || v->flags & PARE_V_CONST)
        return false;
    pare_transpose_perm(n, perm);
    return !memcmp(perm, g->perm, (size_t)g->rank * sizeof(*perm));
}

static bool enters(const struct search *s, const struct pare_value *v)
{
    return !v->maker || v->maker->id >= s->n_nodes || !s->member[v->maker->id];
}

static void count(struct region *g, double bytes, int nodes)
{
    g->gain += nodes * bytes;
    g->nodes += nodes;
}

static void count_values(const struct search *s)
{
    for (int i = 0; i < s->n_values; i++) {
        const struct pare_value *v = s->r->g->value[i];
        struct region *g = region_of(s, v);

        if (!g || !g->perm)
            continue;
        if (!enters(s, v))
            count(g, bytes_of(v), s->outside[i] ? -1 : 0);
        else if (!enters_transposed(g, v))
            count(g, bytes_of(v), -1);
        else if (!s->outside[i])
            count(g, bytes_of(v), 1);
    }
}

/* Transposes of values of regions, which vanish or stay one, and nodes that refuse the order. */
static void count_nodes(const struct search *s)
{
    int perm[PARE_MAX_RANK];

    for (int i = 0; i < s->n_nodes; i++) {
        const struct pare_node *n = s->r->g->node[i];
        struct region *g = n->n_in && n->n_out ? region_of(s, n->in[0]) : NULL;

        if (s->member[i]) {
            g = region_of(s, n->out[0]);
            if (g && g->perm && !pare_accepts_order(n, g->perm))
                g->refused = true;
        } else if (g && g->perm && pare_node_is(n, &pare_op_transpose)) {
            pare_transpose_perm(n, perm);
            if (!memcmp(perm, g->inverse, (size_t)g->rank * sizeof(*perm)))
                count(g, bytes_of(n->in[0]), 1);
        }
    }
}

/* Of two regions with a Transpose between them, one changes at a time. */
static bool decide(const struct search *s)
{
    bool any = false;

    for (int i = 0; i < s->n_values; i++) {
        struct region *g = s->region[i];

        if (g)
            g->flips = g->perm && !g->refused && g->nodes >= 0 && g->gain > 0;
    }
    for (int i = 0; i < s->n_nodes; i++) {
        const struct pare_node *n = s->r->g->node[i];
        const bool between = !s->member[i] && pare_node_is(n, &pare_op_transpose);
        struct region *a = between ? region_of(s, n->in[0]) : NULL;
        struct region *b = between ? region_of(s, n->out[0]) : NULL;

        if (a && b && a->flips && b->flips)
            *(a != b && a->gain >= b->gain ? &b->flips : &a->flips) = false;
    }
    for (int i = 0; i < s->n_values; i++)
        any |= s->region[i] && s->region[i]->flips;
    return any;
}

/* ---- changing the order ---------------------------------------------------------------------- */

/* Make the values in the new order. */
static int make_twins(struct search *s, struct pare_err *err)
{
    for (int i = 0; i < s->n_values; i++) {
        struct pare_value *v = s->r->g->value[i];
        const struct region *g = region_of(s, v);

        if (!g || !g->flips)
            continue;
        s->border[i].by = v->maker ? v->maker : s->r->g->node[0];
        s->border[i].enters = enters(s, v);
        s->border[i].leaves = !enters(s, v) && s->outside[i];
        if (enters(s, v) && enters_transposed(g, v)) {
            s->border[i].enters = false;
            s->twin[i] = v->maker->in[0];
            continue;
        }
        s->twin[i] = pare_rewrite_value(s->r, v, g->inverse, err);
        if (!s->twin[i])
            return err->code;
    }
    return 0;
}

static int flip_node(struct search *s, struct pare_node *n, const struct region *g,
                     struct pare_err *err)
{
    PARE_TRY(pare_set_axis_order(s->r, n, g->perm, err));
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->id < s->n_values && region_of(s, n->in[k]) == g &&
            pare_has_axis_order(n, k))
            n->in[k] = s->twin[n->in[k]->id];
    for (int k = 0; k < n->n_out; k++) {
        struct pare_value *to = s->twin[n->out[k]->id];

        n->out[k]->maker = NULL;
        n->out[k] = to;
        to->maker = n;
    }
    return 0;
}

/* A Transpose that reads a value of the region reads it in the new order. */
static int merge_transpose(struct search *s, struct pare_node *n, const struct region *g,
                           struct pare_err *err)
{
    int perm[PARE_MAX_RANK];
    int64_t both[PARE_MAX_RANK];
    struct pare_setting set = { .name = "perm", .type = PARE_OPT_INTS };

    pare_transpose_perm(n, perm);
    for (int i = 0; i < g->rank; i++)
        both[i] = g->perm[perm[i]];
    set.ints = pare_rewrite_list(s->r, both, g->rank);
    if (!set.ints.v)
        return pare_no_memory(err, "to rewrite the graph");
    PARE_TRY(pare_rewrite_become(s->r, n, &pare_op_transpose, &set, err));
    n->in[0] = s->twin[n->in[0]->id];
    return 0;
}

/* Transposes where values enter in the old order, or are read in it. */
static int add_borders(struct search *s, struct pare_err *err)
{
    for (int i = 0; i < s->n_values; i++) {
        struct pare_value *v = s->r->g->value[i];
        const struct border *b = &s->border[i];

        if (b->enters)
            PARE_TRY(
                pare_rewrite_transpose(s->r, b->by, v, region_of(s, v)->inverse, s->twin[i], err));
        else if (b->leaves)
            PARE_TRY(
                pare_rewrite_transpose(s->r, b->by, s->twin[i], region_of(s, v)->perm, v, err));
    }
    return 0;
}

static int flip_nodes(struct search *s, struct pare_err *err)
{
    for (int i = 0; i < s->n_nodes; i++) {
        struct pare_node *n = s->r->g->node[i];
        const struct region *g;

        if (s->member[i]) {
            g = region_of(s, n->out[0]);
            if (g && g->flips)
                PARE_TRY(flip_node(s, n, g, err));
            continue;
        }
        g = n->n_in ? region_of(s, n->in[0]) : NULL;
        if (!g || !g->flips || !is_known(n))
            continue;
        if (pare_node_is(n, &pare_op_transpose)) {
            PARE_TRY(merge_transpose(s, n, g, err));
        } else if (absorbs(g, n)) {
            PARE_TRY(pare_absorb_order(s->r, n, g->perm, err));
            n->in[0] = s->twin[n->in[0]->id];
        }
    }
    return 0;
}

static int one_layout(struct pare_rewriter *r, struct pare_err *err)
{
    struct search s = { .r = r, .n_values = r->g->n_values, .n_nodes = r->g->n_nodes };
    bool any = false;

    for (int i = 0; i < r->g->n_nodes; i++)
        any |= pare_node_is(r->g->node[i], &pare_op_transpose);
    if (!any)
        return 0;
    PARE_TRY(open_search(&s, err));
    PARE_TRY(find_members(&s, err));
    find_orders(&s);
    for (int i = 0; i < s.n_values; i++)
        if (s.region[i])
            choose(s.region[i]);
    find_outside(&s);
    count_values(&s);
    count_nodes(&s);
    if (!decide(&s))
        return 0;
    PARE_TRY(make_twins(&s, err));
    PARE_TRY(flip_nodes(&s, err));
    PARE_TRY(add_borders(&s, err));
    pare_rewrite_drop_unused(r, &pare_op_transpose);
    return 0;
}

const struct pare_rewrite pare_rewrite_one_layout = {
    .name = "one_layout",
    .doc = "remove Transposes around nodes that work in any order of axes",
    .any_shape = true,
    .late = true,
    .graph = one_layout,
};
