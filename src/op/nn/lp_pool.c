/* lp_pool.c - LpPool: the p-norm of each window, (sum |x|^p)^(1/p). */
#include <math.h>

#include "norm.h"
#include "window.h"

static const struct pare_opt attrs[] = {
    PARE_WINDOW_AUTO_PAD,
    PARE_WINDOW_INT(ceil_mode, "round the output's size up", 0, 0, 1),
    PARE_WINDOW_DILATIONS,
    PARE_WINDOW_KERNEL(true),
    PARE_WINDOW_INT(p, "exponent p of the norm", 2, 1, INT32_MAX),
    PARE_WINDOW_PADS,
    PARE_WINDOW_STRIDES,
    PARE_OPT_END
};

static float norm(const struct pare_pool *p, const float *x, double power)
{
    double sum = 0;

    for (int64_t kd = p->lo[0]; kd < p->hi[0]; kd++)
        for (int64_t kh = p->lo[1]; kh < p->hi[1]; kh++)
            for (int64_t kw = p->lo[2]; kw < p->hi[2]; kw++)
                sum += pow(fabs((double)x[pare_pool_at(p, kd, kh, kw)]), power);
    return (float)pow(sum, 1 / power);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_window_attr *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t total = pare_numel(&n->out[0]->t);
    struct pare_window w;
    struct pare_pool p;

    (void)c;
    PARE_TRY(pare_pool_window(n, &w, err));
    pare_pool_start(&p, &w);
    for (int64_t i = 0; i < total; i++, pare_pool_next(&p))
        y[i] = norm(&p, x + p.plane, (double)a->p);
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_window_attr *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t), *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t total = pare_numel(&n->out[0]->t), at;
    struct pare_window w;
    struct pare_pool p;

    (void)c;
    if (!gx || !gy)
        return 0;
    PARE_TRY(pare_pool_window(n, &w, err));
    pare_pool_start(&p, &w);
    for (int64_t i = 0; i < total; i++, pare_pool_next(&p)) {
        double y = (double)pare_f32(&n->out[0]->t)[i];

        for (int64_t kd = p.lo[0]; kd < p.hi[0]; kd++)
            for (int64_t kh = p.lo[1]; kh < p.hi[1]; kh++)
                for (int64_t kw = p.lo[2]; kw < p.hi[2]; kw++) {
                    at = p.plane + pare_pool_at(&p, kd, kh, kw);
                    gx[at] += (float)((double)gy[i] * pare_norm_slope(x[at], y, (double)a->p));
                }
    }
    return 0;
}

const struct pare_op pare_op_lp_pool = {
    .type = "LpPool",
    .doc = "p-norm of each window.",
    .since = 2,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .infer = pare_pool_infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_channels,
    .constant_channel = pare_constant_channel_zero,
    .flags = PARE_OP_WIDE,
};
