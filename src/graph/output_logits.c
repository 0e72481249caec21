/* output_logits.c - logits of a model whose output is Softmax, LogSoftmax or Sigmoid. */
#include "output_logits.h"

#include "../op/matrix/matrix.h"

/* What is quantized or dequantized to v, or v itself. */
static struct pare_value *unquantized(struct pare_value *v)
{
    const struct pare_node *n = v->maker;

    if (!n || !n->op || !n->n_in || !n->in[0])
        return v;
    if (n->op->flags & PARE_OP_ANY_LAYOUT && n->op->map_tensor) /* fake-quant */
        return n->in[0];
    if (n->op->flags & PARE_OP_LAZY && n->in[0]->maker && n->in[0]->maker->n_in &&
        n->in[0]->maker->in[0])
        return n->in[0]->maker->in[0];
    return v;
}

/* Along axis 1 of an input of this rank; before opset 13, axis 1 and all that follow are one. */
static bool along_classes(const struct pare_node *n, int rank)
{
    struct pare_value x = { .t = { .rank = rank } }, *in = &x;
    struct pare_node of_rank = *n;
    bool flatten;
    int axis;

    of_rank.in = &in;
    axis = pare_softmax_axis(&of_rank, &flatten);
    return axis == 1 && rank >= 2 && (!flatten || rank == 2);
}

struct pare_value *pare_graph_logits(const struct pare_graph *g, unsigned flags,
                                     const struct pare_node **node)
{
    struct pare_value *v = g->n_out ? unquantized(g->out[0]) : NULL;
    const struct pare_node *n = v ? v->maker : NULL;

    if (!n || !n->op || !(n->op->flags & flags) || !n->n_in || !n->in[0] || n->in[0]->maker == n ||
        n->in[0]->flags & (PARE_V_INPUT | PARE_V_CONST))
        return NULL;
    if (n->op->flags & PARE_OP_SOFTMAX &&
        !along_classes(n, n->in[0]->t.rank >= 0 ? n->in[0]->t.rank : g->out[0]->t.rank))
        return NULL;
    if (node)
        *node = n;
    return n->in[0];
}
