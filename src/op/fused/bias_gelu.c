/* bias_gelu.c - BiasGelu (com.microsoft): Gelu of x + bias. */
#include "../math/elementwise.h"

enum { X, BIAS, PIECE = 512 };

extern const struct pare_op pare_op_ms_gelu;

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t, *b = &n->in[BIAS]->t;
    char tb[PARE_SHAPE_TEXT], tx[PARE_SHAPE_TEXT];

    if (b->rank != 1 || !x->rank || b->dim[0] != x->dim[x->rank - 1])
        return pare_fail(err, PARE_ESHAPE, "the bias is %s but the input is %s",
                         pare_shape_text(b, tb, sizeof(tb)), pare_shape_text(x, tx, sizeof(tx)));
    return pare_infer_same(n, err);
}

/* Visit pieces of rows: element i of the input and k of the bias. */
static int each(const struct pare_node *n, bool back)
{
    const float *x = pare_f32(&n->in[X]->t), *b = pare_f32(&n->in[BIAS]->t);
    const float *gy = pare_f32(&n->out[0]->grad);
    float *y = pare_f32_mut(&n->out[0]->t), sum[PIECE], g[PIECE];
    float *gx = pare_f32_mut(&n->in[X]->grad), *gb = pare_f32_mut(&n->in[BIAS]->grad);
    int64_t total = pare_numel(&n->in[X]->t), len = n->in[BIAS]->t.dim[0];

    for (int64_t i = 0; i < total;) {
        int64_t k = i % len, count = len - k < PIECE ? len - k : PIECE;

        for (int64_t j = 0; j < count; j++)
            sum[j] = x[i + j] + b[k + j];
        if (!back) {
            pare_op_ms_gelu.map(n, sum, y + i, count);
        } else {
            memset(g, 0, sizeof(g));
            pare_op_ms_gelu.dmap(n, sum, y + i, gy + i, g, count);
        }
        for (int64_t j = 0; back && gx && j < count; j++)
            gx[i + j] += g[j];
        for (int64_t j = 0; back && gb && j < count; j++)
            gb[k + j] += g[j];
        i += count;
    }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return each(n, false);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return n->out[0]->grad.data ? each(n, true) : 0;
}

const struct pare_op pare_op_bias_gelu = {
    .type = "BiasGelu",
    .doc = "Gelu of the input plus a bias.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_elementwise,
};
