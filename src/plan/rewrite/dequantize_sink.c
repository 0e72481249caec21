/* dequantize_sink.c - push DequantizeLinear past operators that only move data.
 *
 * Operators that move elements or take a maximum give the same result on the quantized values:
 * MaxPool(DequantizeLinear(q)) is DequantizeLinear(MaxPool(q)), and so for slices of channels and
 * for channel shuffles.  They then move bytes instead of floats, and their consumers can read int8
 * values.
 */
#include "../plan.h"

#include <string.h>

#include "../../op/shape/movement.h"

/* The DequantizeLinear, of int8 values with one scale, that produces v; or NULL. */
static struct pare_node *dequantize_of(const struct pare_value *v)
{
    struct pare_node *d = v && !pare_is_fixed(v) ? v->maker : NULL;
    const struct pare_value *q = pare_node_is(d, &pare_op_dequantize_linear) ? d->in[0] : NULL;

    if (!q || pare_is_fixed(q) || (q->t.dtype != PARE_U8 && q->t.dtype != PARE_I8) ||
        d->in[1]->t.dtype != PARE_F32 || pare_numel(&d->in[1]->t) != 1 || !pare_is_f32(v))
        return NULL;
    return d;
}

/* Is n the Reshape of (N, C, H, W) to (N, a, b, H, W) of a channel shuffle, followed by a Transpose
 * of a and b and a Reshape to the first shape? */
static bool shuffles(const struct pare_graph *g, const struct pare_node *n)
{
    const struct pare_node *t = pare_graph_only_consumer(g, n->out[0]), *back;
    int perm[PARE_MAX_RANK];

    if (!pare_node_is(n, &pare_op_reshape) || n->in[0]->t.rank != 4 || n->out[0]->t.rank != 5 ||
        !pare_node_is(t, &pare_op_transpose))
        return false;
    back = pare_graph_only_consumer(g, t->out[0]);
    if (!pare_node_is(back, &pare_op_reshape) || back->out[0]->t.rank != 4)
        return false;
    pare_transpose_perm(t, perm);
    for (int i = 0; i < 4; i++)
        if (back->out[0]->t.dim[i] != n->in[0]->t.dim[i] ||
            (i > 1 && n->in[0]->t.dim[i] != n->out[0]->t.dim[i + 1]))
            return false;
    return n->in[0]->t.dim[0] == n->out[0]->t.dim[0] && perm[0] == 0 && perm[1] == 2 &&
           perm[2] == 1 && perm[3] == 3 && perm[4] == 4;
}

static bool only_moves(const struct pare_graph *g, const struct pare_node *n)
{
    const struct pare_tensor *x, *y;

    if (!n->op || n->op->domain || n->n_out != 1 || !n->n_in || !n->in[0] ||
        !pare_is_f32(n->in[0]) || !pare_is_f32(n->out[0]))
        return false;
    x = &n->in[0]->t;
    y = &n->out[0]->t;
    if (n->op->flags & PARE_OP_POOL)
        return n->op->flags & PARE_OP_MOVES && pare_moves_int8(n->op, n->version);
    if (pare_node_is(n, &pare_op_slice))
        return x->rank == 4 && y->dim[0] == x->dim[0] && y->dim[2] == x->dim[2] &&
               y->dim[3] == x->dim[3];
    return shuffles(g, n);
}

/* Let n read and produce quantized values, and add a DequantizeLinear of its result after it. */
static int swap_nodes(struct pare_graph *g, struct pare_node *n, const struct pare_node *d,
                      struct pare_err *err)
{
    char *name = pare_sprintf(g->arena, "%s quantized", n->out[0]->name);
    struct pare_value *real = n->out[0], *q = name ? pare_graph_value(g, name, err) : NULL;
    struct pare_node *copy = q ? pare_graph_add(g, d->n_in, 1, err) : NULL;
    struct pare_value **in, **out;
    int id;

    if (!copy)
        return name ? err->code : pare_no_memory(err, "for the plan");
    in = copy->in;
    out = copy->out;
    id = copy->id;
    *copy = *d;
    copy->in = in;
    copy->out = out;
    copy->id = id;
    q->t = real->t;
    q->t.data = NULL;
    q->t.dtype = d->in[0]->t.dtype;
    memcpy(in, d->in, (size_t)d->n_in * sizeof(*in));
    in[0] = q;
    out[0] = real;
    real->maker = copy;
    q->maker = n;
    n->in[0] = d->in[0];
    n->out[0] = q;
    pare_graph_move(g, copy, n->id + 1);
    return 0;
}

int pare_plan_sink_dequantize(struct pare_plan *p, struct pare_err *err)
{
    struct pare_graph *g = p->graph;

    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i], *d, *more[3] = { n };
        bool three;

        if (!n->n_in || !n->in[0] || !(d = dequantize_of(n->in[0])) || !only_moves(g, n))
            continue;
        three = pare_node_is(n, &pare_op_reshape);
        if (three) {
            more[1] = pare_graph_only_consumer(g, n->out[0]);
            more[2] = pare_graph_only_consumer(g, more[1]->out[0]);
        }
        for (int k = 0; k < (three ? 3 : 1); k++)
            PARE_TRY(swap_nodes(g, more[k], k ? more[k]->in[0]->maker : d, err));
    }
    return 0;
}
