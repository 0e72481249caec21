/* batch_independence.c - check that the items of a batch are independent, so it can be split.
 *
 * From the inputs on, each value is followed to the axis that has its items, possibly as one digit
 * of the axis's indices (after a Reshape to (items * heads, ...)); a value may also have no items.
 * Constants that were computed from sizes may differ between the two graphs.  They may specify the
 * shape of a result, which is compared, or be equal for each item (Expand of a class token); any
 * other use is a result that depends on the number of items.
 */
#include "batch_independence.h"

#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "ties.h"

/* Values of `axis` for values whose items are not on an axis. */
enum { NONE = -1, SIZES = -2 }; /* SIZES: a constant that differs between the graphs */

struct walk {
    const struct pare_graph *whole, *part;
    int64_t items, fewer; /* in whole, in part */
    struct pare_arena *arena;
    int *axis; /* by value id */

    /* By value id: an index of that axis is (outer, item, rest), outer most significant; this is
     * the number of outer indices. */
    int64_t *outer;

    /* while the relations of a node are read */
    int *output; /* by value id: k + 1 for its k-th output; 0 for all other values */
    bool *found; /* by value id: an input whose items are on an axis of an output */
};

static bool known(const struct pare_tensor *t)
{
    return t->dtype != PARE_NONE && t->rank >= 0;
}

static bool is_const(const struct pare_value *v)
{
    return v->flags & PARE_V_CONST;
}

/* Whether both have the same shape except for the items on this axis. */
static bool shapes_fit(const struct walk *w, const struct pare_tensor *a,
                       const struct pare_tensor *b, int axis)
{
    if (!known(a) || !known(b) || a->dtype != b->dtype || a->rank != b->rank || axis >= a->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (i != axis && a->dim[i] != b->dim[i])
            return false;
    return axis < 0 || (a->dim[axis] > 0 && a->dim[axis] % w->items == 0 &&
                        b->dim[axis] == a->dim[axis] / w->items * w->fewer);
}

/* ---- computed constants ------------------------------------------------------------------- */

static bool same_bytes(const struct pare_tensor *a, const struct pare_tensor *b)
{
    size_t bytes;
    struct pare_err err;

    return a->data && b->data && a->dtype != PARE_STR && a->dtype == b->dtype &&
           pare_same_shape(a, b) && !pare_tensor_size(a, NULL, &bytes, &err) &&
           (!bytes || !memcmp(a->data, b->data, bytes));
}

/* Whether each item of a equals the first item of b. */
static bool same_items(const struct walk *w, const struct pare_tensor *a,
                       const struct pare_tensor *b, int axis)
{
    size_t item = pare_dtype_size(a->dtype), outer = 1;
    const unsigned char *x = a->data, *y = b->data;

    for (int i = axis + 1; i < a->rank; i++)
        item *= (size_t)a->dim[i];
    item *= (size_t)(a->dim[axis] / w->items);
    for (int i = 0; i < axis; i++)
        outer *= (size_t)a->dim[i];
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < (size_t)w->items; i++)
            if (memcmp(x + (o * (size_t)w->items + i) * item, y + o * (size_t)w->fewer * item,
                       item) != 0)
                return false;
    return true;
}

/* The axis of the items in a constant that was computed from sizes. */
static int const_axis(const struct walk *w, const struct pare_tensor *a,
                      const struct pare_tensor *b)
{
    if (same_bytes(a, b))
        return NONE;
    if (!a->data || !b->data || a->dtype == PARE_STR || a->rank != b->rank)
        return SIZES;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return shapes_fit(w, a, b, i) && same_items(w, a, b, i) ? i : SIZES;
    return SIZES;
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* Row-major: whether the numbers of elements before and after the items are equal. */
static int view_axis(const struct walk *w, const struct pare_value *x, const struct pare_tensor *y,
                     int64_t *outer)
{
    int64_t before = w->outer[x->id], now = 1;

    for (int i = 0; i < w->axis[x->id]; i++)
        before *= x->t.dim[i];
    for (int i = 0; i < y->rank && now > 0 && now <= before; now *= y->dim[i], i++) {
        *outer = before / now;
        if (before % now == 0 && y->dim[i] > 0 && y->dim[i] % (*outer * w->items) == 0)
            return i;
    }
    return NONE;
}

/* The relations of one node, while they are read. */
struct node_items {
    const struct walk *w;
    const struct pare_node *n;
    int *to;        /* by output: the axis with its items; NONE: not known yet */
    int64_t *outer; /* by output, as in struct walk */
    bool apart;
};

/* The index of the output; -1: v is not an output. */
static int output_of(const struct node_items *h, const struct pare_value *v)
{
    return h->w->output[v->id] - 1;
}

/* Whether the axis has items; for an output, as known so far. */
static bool has_items(const struct node_items *h, const struct pare_value *v, int axis)
{
    int out = v ? output_of(h, v) : -1;

    return v && (out >= 0 ? h->to[out] : h->w->axis[v->id]) == axis;
}

static int64_t outer_of(const struct node_items *h, const struct pare_value *v)
{
    int out = output_of(h, v);

    return out >= 0 ? h->outer[out] : h->w->outer[v->id];
}

/* Axes with the same channels both have items or neither has.  Returns whether that is new. */
static bool hear_same(struct node_items *h, const struct pare_tied *t)
{
    bool a = has_items(h, t->a, t->ax), b = has_items(h, t->b, t->bx);
    int out = output_of(h, a ? t->b : t->a);

    if (a != b && (out < 0 || h->to[out] != NONE)) {
        h->apart =
            false; /* an input that has items elsewhere, or an output that would have them twice */
        return false;
    }
    if (a != b) {
        h->to[out] = a ? t->bx : t->ax;
        h->outer[out] = outer_of(h, a ? t->a : t->b);
    } else if (a && outer_of(h, t->a) != outer_of(h, t->b)) {
        h->apart = false;
    }
    if ((a || b) && output_of(h, t->b) >= 0)
        h->w->found[t->a->id] = true;
    if ((a || b) && output_of(h, t->a) >= 0)
        h->w->found[t->b->id] = true;
    return a != b;
}

/* Any other relation of an axis with items makes the items dependent. */
static void hear_other(struct node_items *h, const struct pare_tied *t)
{
    bool touched = has_items(h, t->a, t->ax) || has_items(h, t->b, t->bx);

    for (int i = 0; i < t->n_digits; i++)
        touched |= has_items(h, t->digit[i].v, t->digit[i].axis);
    if (touched)
        h->apart = false;
}

static bool is_same(const struct pare_tied *t)
{
    return t->kind == PARE_TIE_SAME ||
           (t->kind == PARE_TIE_PART && !t->from && t->a->t.dim[t->ax] == t->b->t.dim[t->bx]);
}

static void hear_all(struct node_items *h, const struct pare_ties *t)
{
    bool more = true;

    while (more && h->apart) {
        more = false;
        for (int i = 0; i < t->n && h->apart; i++)
            if (is_same(&t->tie[i]))
                more |= hear_same(h, &t->tie[i]);
    }
    for (int i = 0; i < t->n; i++)
        if (!is_same(&t->tie[i]))
            hear_other(h, &t->tie[i]);
}

/* A range that was computed from sizes may differ for another batch size. */
static bool has_ranges(const struct pare_ties *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->tie[i].kind == PARE_TIE_PART || t->tie[i].kind == PARE_TIE_PICK)
            return true;
    return false;
}

/* Find the axes of the node's outputs that have the items of its inputs. */
static int follow_node(struct node_items *h, bool sizes, struct pare_err *err)
{
    struct pare_ties t = { .arena = h->w->arena, .node = h->n };
    const struct pare_node *n = h->n;

    n->op->ties(n, &t);
    if (t.failed)
        return pare_no_memory(err, "to analyze the batch");
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i])
            h->w->found[n->in[i]->id] = false;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            h->w->output[n->out[i]->id] = i + 1;
    hear_all(h, &t);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            h->w->output[n->out[i]->id] = 0;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && h->w->axis[n->in[i]->id] >= 0)
            h->apart &= h->w->found[n->in[i]->id];
    h->apart &= !sizes || !has_ranges(&t);
    return 0;
}

/* Outputs of a node whose inputs have items; `sizes`: other inputs are constants that differ. */
static int node_items(struct node_items *h, bool sizes, struct pare_err *err)
{
    const struct pare_node *n = h->n;
    struct pare_err ignored;

    h->apart = !n->n_cap && !(n->op->flags & (PARE_OP_ALLOCS | PARE_OP_ANY_LAYOUT | PARE_OP_LEARNS |
                                              PARE_OP_SHAPES));
    for (int i = 0; i < n->n_in; i++) /* only inputs that specify the shape of a result */
        if (n->in[i] && h->w->axis[n->in[i]->id] == SIZES)
            h->apart &= i < 32 && n->op->sizes >> i & 1;
    if (!h->apart)
        return 0;
    if (n->op->flags & PARE_OP_VIEW) {
        if (n->n_out == 1 && n->in[0] && n->out[0] && h->w->axis[n->in[0]->id] >= 0)
            h->to[0] = view_axis(h->w, n->in[0], &n->out[0]->t, &h->outer[0]);
        return 0;
    }
    h->apart = n->op->ties && n->n_out && n->out[0] && !pare_node_check(n, &ignored);
    return h->apart ? follow_node(h, sizes, err) : 0;
}

/* The node's outputs were constants before anything ran. */
static bool folded(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && !is_const(n->out[i]))
            return false;
    return n->n_out > 0;
}

static bool shapes_known(const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !known(&n->in[i]->t))
            return false;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && !known(&n->out[i]->t))
            return false;
    return n->op != NULL;
}

static int visit(struct walk *w, int at, bool *apart, struct pare_err *err)
{
    const struct pare_node *n = w->whole->node[at], *m = w->part->node[at];
    struct node_items h = { .w = w, .n = n, .apart = true };
    bool items = false, sizes = false;

    if (folded(n) != folded(m) || !shapes_known(n) || !shapes_known(m)) {
        *apart = false;
        return 0;
    }
    for (int i = 0; i < n->n_in + n->n_cap; i++) {
        const struct pare_value *v = i < n->n_in ? n->in[i] : n->cap[i - n->n_in];
        bool own = v && v->id < w->whole->n_values && w->whole->value[v->id] == v;

        items |= own && w->axis[v->id] >= 0;
        sizes |= own && w->axis[v->id] == SIZES;
    }
    h.to = pare_alloc(w->arena, (size_t)n->n_out, sizeof(*h.to));
    h.outer = pare_alloc(w->arena, (size_t)n->n_out, sizeof(*h.outer));
    if (!h.to || !h.outer)
        return pare_no_memory(err, "to analyze the batch");
    for (int i = 0; i < n->n_out; i++) {
        h.to[i] = NONE;
        h.outer[i] = 1;
    }
    if (!folded(n) && items)
        PARE_TRY(node_items(&h, sizes, err));
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i])
            continue;
        if (folded(n) && (items || sizes))
            h.to[i] = const_axis(w, &n->out[i]->t, &m->out[i]->t);
        else
            h.apart &= shapes_fit(w, &n->out[i]->t, &m->out[i]->t, h.to[i]) &&
                       items == (h.to[i] >= 0) && (items || !sizes);
        w->axis[n->out[i]->id] = h.to[i];
        w->outer[n->out[i]->id] = h.outer[i];
    }
    *apart = h.apart;
    return 0;
}

/* All inputs and all outputs of the graph must have the items on axis 0. */
static bool inputs_fit(struct walk *w)
{
    const struct pare_graph *g = w->whole, *p = w->part;

    if (!g->n_in || g->n_in != p->n_in || g->n_nodes != p->n_nodes || g->n_values != p->n_values ||
        g->in[0]->t.rank < 1 || p->in[0]->t.rank < 1)
        return false;
    w->items = g->in[0]->t.dim[0];
    w->fewer = p->in[0]->t.dim[0];
    if (w->items < 2 || w->fewer < 1 || w->fewer >= w->items)
        return false;
    for (int i = 0; i < g->n_in; i++) {
        if (g->in[i]->t.rank < 1 || g->in[i]->t.dim[0] != w->items ||
            !shapes_fit(w, &g->in[i]->t, &p->in[i]->t, 0))
            return false;
        w->axis[g->in[i]->id] = 0;
        w->outer[g->in[i]->id] = 1;
    }
    return true;
}

static int follow(struct walk *w, bool *apart, struct pare_err *err)
{
    for (int i = 0; i < w->whole->n_values; i++)
        w->axis[i] = NONE;
    *apart = inputs_fit(w);
    for (int i = 0; i < w->whole->n_nodes && *apart; i++) {
        struct pare_mark m = pare_mark(w->arena);

        PARE_TRY(visit(w, i, apart, err));
        pare_reset(w->arena, m);
    }
    for (int i = 0; i < w->whole->n_out && *apart; i++)
        *apart = w->axis[w->whole->out[i]->id] == 0 && w->outer[w->whole->out[i]->id] == 1;
    return 0;
}

int pare_batch_independent(const struct pare_graph *whole, const struct pare_graph *part,
                           bool *apart, struct pare_err *err)
{
    struct walk w = { .whole = whole, .part = part, .arena = pare_arena_new(1 << 16) };
    size_t values = (size_t)whole->n_values;
    int rc = PARE_ENOMEM;

    *apart = false;
    if (w.arena) {
        w.axis = pare_alloc(w.arena, values, sizeof(*w.axis));
        w.outer = pare_alloc(w.arena, values, sizeof(*w.outer));
        w.output = pare_alloc(w.arena, values, sizeof(*w.output));
        w.found = pare_alloc(w.arena, values, sizeof(*w.found));
    }
    if (w.axis && w.outer && w.output && w.found)
        rc = follow(&w, apart, err);
    else
        pare_no_memory(err, "to analyze the batch");
    pare_arena_free(w.arena);
    return rc;
}
