/* quantize_hoist.c - move QuantizeLinear ahead of MaxPool and reshapes.
 *
 * Rounding is monotonic, so QuantizeLinear(MaxPool(x)) is MaxPool(QuantizeLinear(x)), and views do
 * not change elements at all.  With QuantizeLinear directly after the convolution, the
 * convolution's step writes int8 values and the pool reads a quarter of the memory.
 */
#include "../plan.h"

#include <string.h>

#include "../../op/op.h"

static bool keeps_order(const struct pare_node *n)
{
    if (!n->op || n->op->domain || n->n_out != 1 || !n->n_in || !n->in[0] ||
        !pare_is_f32(n->in[0]) || pare_is_fixed(n->in[0]))
        return false;
    if (n->op->flags & PARE_OP_VIEW)
        return true;
    return n->op->flags & PARE_OP_POOL && n->op->flags & PARE_OP_MOVES &&
           pare_moves_int8(n->op, n->version);
}

/* With a single constant scale the node can be placed anywhere. */
static bool can_hoist(const struct pare_node *q)
{
    if (!pare_node_is(q, &pare_op_quantize_linear) ||
        (q->out[0]->t.dtype != PARE_U8 && q->out[0]->t.dtype != PARE_I8))
        return false;
    for (int i = 1; i < q->n_in; i++)
        if (q->in[i] && (!pare_is_const(q->in[i]) || pare_numel(&q->in[i]->t) != 1))
            return false;
    return true;
}

/* x -> n -> q becomes x -> q -> n; the value between them is quantized. */
static void swap_nodes(struct pare_graph *g, struct pare_node *n, struct pare_node *q)
{
    struct pare_value *x = n->in[0], *between = n->out[0], *y = q->out[0];

    between->t = x->t;
    between->t.data = NULL;
    between->t.dtype = y->t.dtype;
    q->in[0] = x;
    q->out[0] = between;
    n->in[0] = between;
    n->out[0] = y;
    between->maker = q;
    y->maker = n;
    pare_graph_move(g, q, n->id);
}

void pare_plan_hoist_quantize(struct pare_plan *p)
{
    struct pare_graph *g = p->graph;

    for (int i = g->n_nodes - 1; i >= 0; i--) {
        struct pare_node *n = g->node[i], *q;

        if (!keeps_order(n) || !n->in[0]->maker || pare_graph_only_consumer(g, n->in[0]) != n)
            continue;
        q = pare_graph_only_consumer(g, n->out[0]);
        if (can_hoist(q) && q->in[0] == n->out[0])
            swap_nodes(g, n, q);
    }
}
