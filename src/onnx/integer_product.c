/* integer_product.c - scale and bias of MatMulInteger and ConvInteger, from later nodes. */
#include "integer_product.h"

#include "../op/op.h"

bool pare_quantizes_dynamically(const struct pare_node *n)
{
    return n->op && n->op->scales.dynamic && n->n_out > 1;
}

static bool is_const(const struct pare_value *v)
{
    return v && v->flags & PARE_V_CONST;
}

/* One factor, or both of a product. */
static void split_factors(const struct pare_value *v, const struct pare_value *factor[2])
{
    const struct pare_node *n = v->maker;

    factor[0] = v;
    factor[1] = NULL;
    if (pare_node_is(n, &pare_op_mul) && !is_const(v)) {
        factor[0] = n->in[0];
        factor[1] = n->in[1];
    }
}

/* The constant by which integers are multiplied after their Cast to float, if the scale of the
 * dynamically quantized input is another factor; else NULL.  *product: the result of both. */
static const struct pare_value *scale_of(const struct pare_graph *g, const struct pare_node *n,
                                         const struct pare_value **product)
{
    const struct pare_value *x = n->in[0], *scale = NULL, *v;
    const struct pare_node *next = pare_graph_only_consumer(g, n->out[0]);
    bool by_input = false;

    if (pare_node_is(next, &pare_op_add)) /* a bias in integers */
        next = pare_graph_only_consumer(g, next->out[0]);
    if (!x || !x->maker || !pare_quantizes_dynamically(x->maker) || !next || !next->op ||
        !(next->op->flags & PARE_OP_STORAGE))
        return NULL;
    for (int i = 0; i < 2 && !(scale && by_input); i++) {
        const struct pare_value *factor[2];

        v = next->out[0];
        next = pare_graph_only_consumer(g, v);
        if (!pare_node_is(next, &pare_op_mul) || next->in[0] == next->in[1])
            return NULL;
        split_factors(next->in[next->in[0] == v], factor);
        for (int k = 0; k < 2; k++) {
            by_input |= factor[k] && factor[k] == x->maker->out[1];
            if (!scale && is_const(factor[k]))
                scale = factor[k];
        }
    }
    *product = next->out[0];
    return by_input ? scale : NULL;
}

const struct pare_value *pare_product_scale(const struct pare_graph *g, const struct pare_node *n)
{
    const struct pare_value *product;

    return scale_of(g, n, &product);
}

const struct pare_value *pare_product_bias(const struct pare_graph *g, const struct pare_node *n)
{
    const struct pare_value *product = NULL, *bias;
    int out = n->op->layer.kind == PARE_LAYER_CONV ? 1 : -1;
    const struct pare_node *add;

    add = scale_of(g, n, &product) ? pare_graph_only_consumer(g, product) : NULL;
    if (!pare_node_is(add, &pare_op_add) || add->in[0] == add->in[1])
        return NULL;
    bias = add->in[add->in[0] == product];
    if (!is_const(bias) || bias->t.dtype != PARE_F32 || product->t.rank < 1)
        return NULL;
    out = out < 0 ? product->t.rank - 1 : out;
    return out < product->t.rank && pare_numel(&bias->t) == product->t.dim[out] ? bias : NULL;
}
