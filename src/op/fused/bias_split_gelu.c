/* bias_split_gelu.c - BiasSplitGelu (com.microsoft): the left half of x + bias times Gelu of the
 * right half. */
#include "../math/elementwise.h"

enum { X, BIAS };

extern const struct pare_op pare_op_ms_gelu;

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t, *b = &n->in[BIAS]->t;
    char tb[PARE_SHAPE_TEXT], tx[PARE_SHAPE_TEXT];

    if (b->rank != 1 || !x->rank || b->dim[0] != x->dim[x->rank - 1] || b->dim[0] % 2)
        return pare_fail(
            err, PARE_ESHAPE,
            "the bias is %s and the input is %s, expected a list for its last axis, of "
            "an even length",
            pare_shape_text(b, tb, sizeof(tb)), pare_shape_text(x, tx, sizeof(tx)));
    pare_like(&n->out[0]->t, x);
    n->out[0]->t.dim[x->rank - 1] /= 2;
    return 0;
}

/* Both halves of the sum for output i. */
static void halves(const struct pare_node *n, int64_t i, float *left, float *right, int64_t *at)
{
    int64_t half = n->in[BIAS]->t.dim[0] / 2, k = i % half;

    *at = i / half * 2 * half + k;
    *left = pare_f32(&n->in[X]->t)[*at] + pare_f32(&n->in[BIAS]->t)[k];
    *right = pare_f32(&n->in[X]->t)[*at + half] + pare_f32(&n->in[BIAS]->t)[k + half];
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t total = pare_numel(&n->out[0]->t), at;

    (void)c, (void)err;
    for (int64_t i = 0; i < total; i++) {
        float left, right;

        halves(n, i, &left, &right, &at);
        pare_op_ms_gelu.map(n, &right, &right, 1);
        pare_f32_mut(&n->out[0]->t)[i] = left * right;
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[X]->grad), *gb = pare_f32_mut(&n->in[BIAS]->grad);
    int64_t total = gy ? pare_numel(&n->out[0]->t) : 0, half = n->in[BIAS]->t.dim[0] / 2, at;

    (void)c, (void)err;
    for (int64_t i = 0; i < total; i++) {
        float left, right, gelu, g[2] = { 0, 0 }, to_gelu;

        halves(n, i, &left, &right, &at);
        pare_op_ms_gelu.map(n, &right, &gelu, 1);
        g[0] = gy[i] * gelu;
        to_gelu = gy[i] * left;
        pare_op_ms_gelu.dmap(n, &right, &gelu, &to_gelu, &g[1], 1);
        for (int k = 0; k < 2; k++) {
            if (gx)
                gx[at + k * half] += g[k];
            if (gb)
                gb[i % half + k * half] += g[k];
        }
    }
    return 0;
}

/* The last axis is (half, channel). */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int last = n->in[X]->t.rank - 1;
    int64_t half = n->in[BIAS]->t.dim[0] / 2;
    const struct pare_digit digit[2] = { { NULL, -1, 2 }, { n->out[0], last, half } };

    pare_ties_except(n, 1u << last, t);
    pare_tie_digits(t, n->in[X], last, digit, 2);
    pare_tie_digits(t, n->in[BIAS], 0, digit, 2);
}

const struct pare_op pare_op_bias_split_gelu = {
    .type = "BiasSplitGelu",
    .doc = "Left half of the input plus a bias, times Gelu of the right half.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
