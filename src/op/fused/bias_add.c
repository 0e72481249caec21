/* bias_add.c - BiasAdd (com.microsoft): x + bias + skip. */
#include "../op.h"

enum { X, BIAS, SKIP };

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t, *b = &n->in[BIAS]->t;
    char tb[PARE_SHAPE_TEXT], tx[PARE_SHAPE_TEXT];

    if (b->rank != 1 || !x->rank || b->dim[0] != x->dim[x->rank - 1] ||
        !pare_same_shape(x, &n->in[SKIP]->t))
        return pare_fail(
            err, PARE_ESHAPE,
            "the bias is %s and the input is %s, expected a list for its last axis and "
            "a skip of the same shape",
            pare_shape_text(b, tb, sizeof(tb)), pare_shape_text(x, tx, sizeof(tx)));
    return pare_infer_same(n, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t total = pare_numel(&n->in[X]->t), len = n->in[BIAS]->t.dim[0];

    (void)c, (void)err;
    for (int64_t i = 0; i < total; i++)
        pare_f32_mut(&n->out[0]->t)[i] = pare_f32(&n->in[X]->t)[i] +
                                         pare_f32(&n->in[BIAS]->t)[i % len] +
                                         pare_f32(&n->in[SKIP]->t)[i];
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    int64_t total = pare_numel(&n->in[X]->t), len = n->in[BIAS]->t.dim[0];

    (void)c, (void)err;
    for (int k = X; gy && k <= SKIP; k++)
        for (int64_t i = 0; n->in[k]->grad.data && i < total; i++)
            pare_f32_mut(&n->in[k]->grad)[k == BIAS ? i % len : i] += gy[i];
    return 0;
}

const struct pare_op pare_op_bias_add = {
    .type = "BiasAdd",
    .doc = "Sum of the input, a bias and a residual.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TTT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_elementwise,
};
