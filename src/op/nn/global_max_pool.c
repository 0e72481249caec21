/* global_max_pool.c - GlobalMaxPool: the largest value of each channel. */
#include <math.h>

#include "norm.h"
#include "window.h"

/* The first of the largest elements; NaN counts as largest. */
static int64_t best(const float *x, int64_t n)
{
    int64_t at = 0;

    for (int64_t k = 1; k < n && !isnan(x[at]); k++)
        at = x[k] <= x[at] ? at : k;
    return at;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t planes = n->in[0]->t.dim[0] * n->in[0]->t.dim[1], inner;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; i < planes; i++, x += inner)
        y[i] = inner ? x[best(x, inner)] : -INFINITY;
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t planes = n->in[0]->t.dim[0] * n->in[0]->t.dim[1], inner;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; gx && gy && inner && i < planes; i++)
        gx[i * inner + best(x + i * inner, inner)] += gy[i];
    return 0;
}

const struct pare_op pare_op_global_max_pool = {
    .type = "GlobalMaxPool",
    .doc = "Largest element of each channel.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_HOMOGENEOUS | PARE_OP_POOL | PARE_OP_MOVES | PARE_OP_GLOBAL,
    .infer = pare_infer_global_pool,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_channels,
    .constant_channel = pare_constant_channel_same,
};
