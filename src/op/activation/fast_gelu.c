/* fast_gelu.c - FastGelu (com.microsoft): the tanh approximation of Gelu, of x + bias. */
#include "../math/elementwise.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    const struct pare_tensor *bias = n->n_in > 1 && n->in[1] ? &n->in[1]->t : NULL;
    char tb[PARE_SHAPE_TEXT], tx[PARE_SHAPE_TEXT];

    if (bias && (bias->rank != 1 || !x->rank || bias->dim[0] != x->dim[x->rank - 1]))
        return pare_fail(err, PARE_ESHAPE, "the bias is %s but the input is %s",
                         pare_shape_text(bias, tb, sizeof(tb)), pare_shape_text(x, tx, sizeof(tx)));
    return pare_infer_same(n, err);
}

PARE_SIMD static void row(const float *x, const float *bias, float *y, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = pare_gelu_tanhf(bias ? x[i] + bias[i] : x[i]);
}

/* No map(), which has no access to the bias. */
static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    const float *bias = n->n_in > 1 && n->in[1] ? pare_f32(&n->in[1]->t) : NULL;
    int64_t total = pare_numel(x), len = bias ? x->dim[x->rank - 1] : total;

    (void)c, (void)err;
    for (int64_t i = 0; i < total; i += len)
        row(pare_f32_mut(x) + i, bias, pare_f32_mut(y) + i, len);
    return 0;
}

PARE_SIMD static void slopes(const float *x, const float *bias, const float *gy, float *g,
                             int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        g[i] = gy[i] * pare_gelu_tanh_slopef(bias ? x[i] + bias[i] : x[i]);
}

#define PIECE 512

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    const struct pare_value *b = n->n_in > 1 ? n->in[1] : NULL;
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad), *gb = b ? pare_f32_mut(&b->grad) : NULL, g[PIECE];
    int64_t total = pare_numel(x), len = b ? x->dim[x->rank - 1] : total;

    (void)c, (void)err;
    for (int64_t i = 0; gy && (gx || gb) && i < total; i += len)
        for (int64_t k = 0; k < len; k += PIECE) {
            int64_t count = len - k < PIECE ? len - k : PIECE;

            slopes(pare_f32(x) + i + k, b ? pare_f32(&b->t) + k : NULL, gy + i + k, g, count);
            if (gx)
                pare_add_row(gx + i + k, 1, g, count);
            if (gb)
                pare_add_row(gb + k, 1, g, count);
        }
    return 0;
}

const struct pare_op pare_op_fast_gelu = {
    .type = "FastGelu",
    .doc = "Tanh approximation of Gelu, of the input plus a bias.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_elementwise,
};
