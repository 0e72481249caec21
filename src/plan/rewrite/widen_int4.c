/* widen_int4.c - 4-bit weights of layers with quantized inputs become 8-bit weights, which int8
 * kernels read: convolutions, and products whose input is dequantized, too. */
#include "../plan.h"

#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "new_nodes.h"

/* A constant as bytes; NULL: it has no contents, or out of memory. */
static struct pare_value *widen(struct pare_graph *g, const struct pare_value *v,
                                struct pare_err *err)
{
    struct pare_tensor t = v->t;

    if (pare_tensor_alloc(g->arena, &t, err))
        return NULL;
    if (v->t.data)
        memcpy(t.data, v->t.data, (size_t)pare_numel(&t));
    else
        pare_unpack(&t, v->raw);
    t.dtype = t.dtype == PARE_I4 ? PARE_I8 : PARE_U8;
    return pare_new_constant(g, &t, err);
}

static bool is_small(const struct pare_value *v)
{
    return v && v->flags & PARE_V_CONST && !v->maker && pare_is_4bit(v->t.dtype) &&
           (v->t.data || v->raw);
}

/* Is n the weight's DequantizeLinear of a layer whose input is dequantized? */
static bool is_weight(const struct pare_graph *g, const struct pare_node *n)
{
    const struct pare_node *to;

    if (!pare_node_is(n, &pare_op_dequantize_linear) || !is_small(n->in[0]) ||
        (n->n_in > 2 && n->in[2] && !is_small(n->in[2])) || pare_attr(n, "block_size") != 0)
        return false;
    to = pare_graph_only_consumer(g, n->out[0]);
    if (!to || !to->op || to->n_in < 2 || to->in[1] != n->out[0] ||
        (to->op->layer.kind != PARE_LAYER_CONV && to->op->layer.kind != PARE_LAYER_LINEAR))
        return false;
    return to->in[0]->maker && pare_node_is(to->in[0]->maker, &pare_op_dequantize_linear);
}

int pare_plan_widen_int4(struct pare_plan *p, struct pare_err *err)
{
    struct pare_graph *g = p->graph;

    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];
        struct pare_value *q, *zero = NULL;

        if (!is_weight(g, n))
            continue;
        q = widen(g, n->in[0], err);
        if (q && n->n_in > 2 && n->in[2])
            zero = widen(g, n->in[2], err);
        if (!q || (n->n_in > 2 && n->in[2] && !zero))
            return err->code;
        n->in[0] = q;
        if (zero)
            n->in[2] = zero;
    }
    return 0;
}
