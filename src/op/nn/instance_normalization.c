/* instance_normalization.c - InstanceNormalization: normalize each channel of each sample.
 *
 *     y = (x - mean) / sqrt(var + epsilon) * scale + B
 */
#include <math.h>

#include "norm.h"

struct instance_norm {
    double epsilon;
};

static const struct pare_opt attrs[] = {
    PARE_FLOAT("epsilon", offsetof(struct instance_norm, epsilon), "added to the variance", 1e-5,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

double pare_instance_norm_epsilon(const struct pare_node *n)
{
    const struct instance_norm *a = n->attr;

    return a->epsilon;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t inner;

    PARE_TRY(pare_norm_inner(x, 2, &inner, err));
    PARE_TRY(pare_norm_param(n, 1, "scale", x->dim[1], err));
    PARE_TRY(pare_norm_param(n, 2, "B", x->dim[1], err));
    return pare_infer_same(n, err);
}

static int forward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t);
    const float *scale = pare_f32(&n->in[1]->t), *bias = pare_f32(&n->in[2]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t C = n->in[0]->t.dim[1], planes = n->in[0]->t.dim[0] * C, inner;

    (void)ctx;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; i < planes && inner; i++, x += inner, y += inner) {
        double mean, var;
        float f;

        pare_moments(x, inner, &mean, &var);
        f = (float)((double)scale[i % C] / sqrt(var + pare_instance_norm_epsilon(n)));
        for (int64_t k = 0; k < inner; k++)
            y[k] = (x[k] - (float)mean) * f + bias[i % C];
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    float *gx = pare_f32_mut(&n->in[0]->grad), *gscale = pare_f32_mut(&n->in[1]->grad);
    float *gbias = pare_f32_mut(&n->in[2]->grad);
    int64_t C = x->dim[1], planes = x->dim[0] * C, inner;

    (void)ctx;
    PARE_TRY(pare_norm_inner(x, 2, &inner, err));
    for (int64_t i = 0; i < planes && inner && n->out[0]->grad.data; i++) {
        struct pare_norm_group g = { .channels = 1, .inner = inner };

        g.x = pare_f32(x) + i * inner;
        g.gy = pare_f32(&n->out[0]->grad) + i * inner;
        g.scale = pare_f32(&n->in[1]->t) + i % C;
        g.gx = gx ? gx + i * inner : NULL;
        g.gscale = gscale ? gscale + i % C : NULL;
        g.gbias = gbias ? gbias + i % C : NULL;
        g.epsilon = pare_instance_norm_epsilon(n);
        pare_norm_group_back(&g);
    }
    return 0;
}

/* Channels are independent; spatial axes are frozen. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_ties_except(n, ~0u << 2, t);
    pare_tie(t, n->in[1], 0, n->out[0], 1);
    pare_tie(t, n->in[2], 0, n->out[0], 1);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 0;
    *in = -1;
}

/* A constant plane equals its mean: only the bias remains. */
static float constant_channel(const struct pare_node *n, int axis, int64_t channel, float x)
{
    (void)x;
    if (axis != 1 || !n->in[2]->t.data || channel >= pare_numel(&n->in[2]->t))
        return NAN;
    return (float)pare_get(&n->in[2]->t, channel);
}

const struct pare_op pare_op_instance_normalization = {
    .type = "InstanceNormalization",
    .doc = "Normalize each channel of each sample, then scale and shift it.",
    .since = 6,
    .in = "TTT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct instance_norm),
    .torch = "InstanceNorm#d",
    .layer = { .params = PARE_IN(1) | PARE_IN(2), .weight = 1, .bias = 2, .norm = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .axes = axes,
    .constant_channel = constant_channel,
};
