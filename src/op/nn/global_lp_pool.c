/* global_lp_pool.c - GlobalLpPool: the p-norm of each channel, (sum |x|^p)^(1/p). */
#include <math.h>

#include "norm.h"
#include "window.h"

struct global_lp {
    int64_t p;
};

static const struct pare_opt attrs[] = { PARE_INT("p", offsetof(struct global_lp, p),
                                                  "exponent p of the norm", 2, 1, INT32_MAX),
                                         PARE_OPT_END };

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct global_lp *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t planes = n->in[0]->t.dim[0] * n->in[0]->t.dim[1], inner;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; i < planes; i++, x += inner) {
        double sum = 0;

        for (int64_t k = 0; k < inner; k++)
            sum += pow(fabs((double)x[k]), (double)a->p);
        y[i] = (float)pow(sum, 1 / (double)a->p);
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct global_lp *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t), *y = pare_f32(&n->out[0]->t);
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t planes = n->in[0]->t.dim[0] * n->in[0]->t.dim[1], inner;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; gx && gy && i < planes; i++, x += inner, gx += inner)
        for (int64_t k = 0; k < inner; k++)
            gx[k] += (float)((double)gy[i] * pare_norm_slope(x[k], (double)y[i], (double)a->p));
    return 0;
}

const struct pare_op pare_op_global_lp_pool = {
    .type = "GlobalLpPool",
    .doc = "p-norm of each channel.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct global_lp),
    .infer = pare_infer_global_pool,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_channels,
    .constant_channel = pare_constant_channel_zero,
    .flags = PARE_OP_WIDE,
};
