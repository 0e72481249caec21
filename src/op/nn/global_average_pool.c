/* global_average_pool.c - GlobalAveragePool: the mean of each channel. */
#include "norm.h"
#include "window.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t planes = n->in[0]->t.dim[0] * n->in[0]->t.dim[1], inner;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; i < planes; i++, x += inner) {
        double sum = 0;

        for (int64_t k = 0; k < inner; k++)
            sum += (double)x[k];
        y[i] = (float)(sum / (double)inner);
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t planes = n->in[0]->t.dim[0] * n->in[0]->t.dim[1], inner;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; gx && gy && i < planes; i++, gx += inner) {
        float v = (float)((double)gy[i] / (double)inner);

        for (int64_t k = 0; k < inner; k++)
            gx[k] += v;
    }
    return 0;
}

/* A sum over the plane, then a division. */
static double nni_ops(const struct pare_node *n)
{
    double taps = 1;

    for (int i = 2; i < n->in[0]->t.rank; i++)
        taps *= (double)n->in[0]->t.dim[i];
    return (taps + 1) * (double)pare_numel(&n->out[0]->t);
}

const struct pare_op pare_op_global_average_pool = {
    .type = "GlobalAveragePool",
    .doc = "Mean of each channel.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_HOMOGENEOUS | PARE_OP_POOL | PARE_OP_INT8_JOIN | PARE_OP_MEAN | PARE_OP_GLOBAL,
    .torch = "AdaptiveAvgPool#d",
    .qlinear_type = "QLinearGlobalAveragePool",
    .infer = pare_infer_global_pool,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_channels,
    .nni_ops = nni_ops,
    .constant_channel = pare_constant_channel_same,
};
