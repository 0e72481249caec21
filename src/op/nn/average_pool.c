/* average_pool.c - AveragePool: the mean of each window.
 *
 * The divisor counts the taps inside the input or, with count_include_pad, those inside the padded
 * input; taps that ceil_mode adds beyond the padding never count.
 */
#include <math.h>

#include "window.h"

static const struct pare_opt attrs[] = {
    PARE_WINDOW_AUTO_PAD,
    PARE_WINDOW_INT(ceil_mode, "round the output's size up", 0, 0, 1),
    PARE_WINDOW_INT(count_include_pad, "count padding as zeros", 0, 0, 1),
    PARE_WINDOW_DILATIONS,
    PARE_WINDOW_KERNEL(true),
    PARE_WINDOW_PADS,
    PARE_WINDOW_STRIDES,
    PARE_OPT_END
};

/* The number of taps of the current window along axis i that are inside the padded input. */
static int64_t padded_taps(const struct pare_pool *p, int i)
{
    int64_t room = p->w.in[i] + p->w.pad_end[i] - p->start[i];
    int64_t taps = room <= 0 ? 0 : (room - 1) / p->w.dilation[i] + 1;

    return taps < p->w.kernel[i] ? taps : p->w.kernel[i];
}

static double divisor(const struct pare_pool *p, bool counts_pad)
{
    double count = 1;

    for (int i = 0; i < PARE_WINDOW_MAX; i++)
        count *= (double)(counts_pad ? padded_taps(p, i) : p->hi[i] - p->lo[i]);
    return count;
}

static float mean(const struct pare_pool *p, const float *x, bool counts_pad)
{
    double sum = 0, count = divisor(p, counts_pad);

    for (int64_t kd = p->lo[0]; kd < p->hi[0]; kd++)
        for (int64_t kh = p->lo[1]; kh < p->hi[1]; kh++)
            for (int64_t kw = p->lo[2]; kw < p->hi[2]; kw++)
                sum += (double)x[pare_pool_at(p, kd, kh, kw)];
    return count > 0 ? (float)(sum / count) : 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t total = pare_numel(&n->out[0]->t);
    struct pare_window w;
    struct pare_pool p;

    (void)c;
    PARE_TRY(pare_pool_window(n, &w, err));
    pare_pool_start(&p, &w);
    for (int64_t i = 0; i < total; i++, pare_pool_next(&p))
        y[i] = mean(&p, x + p.plane, pare_pool_counts_pad(n));
    return 0;
}

/* Add v to each element of the window. */
static void spread(const struct pare_pool *p, float *gx, float v)
{
    for (int64_t kd = p->lo[0]; kd < p->hi[0]; kd++)
        for (int64_t kh = p->lo[1]; kh < p->hi[1]; kh++)
            for (int64_t kw = p->lo[2]; kw < p->hi[2]; kw++)
                gx[pare_pool_at(p, kd, kh, kw)] += v;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t total = pare_numel(&n->out[0]->t);
    struct pare_window w;
    struct pare_pool p;

    (void)c;
    if (!gx || !gy)
        return 0;
    PARE_TRY(pare_pool_window(n, &w, err));
    pare_pool_start(&p, &w);
    for (int64_t i = 0; i < total; i++, pare_pool_next(&p))
        spread(&p, gx + p.plane, (float)((double)gy[i] / divisor(&p, pare_pool_counts_pad(n))));
    return 0;
}

/* A mean of equal elements is the same, unless padding counts. */
static float constant_channel(const struct pare_node *n, int axis, int64_t channel, float x)
{
    struct pare_window w;
    struct pare_err err;

    (void)axis, (void)channel;
    if (x == 0 || !pare_pool_counts_pad(n))
        return x;
    if (pare_pool_window(n, &w, &err))
        return NAN;
    for (int i = 0; i < w.nd; i++)
        if (w.pad_begin[i] || w.pad_end[i])
            return NAN;
    return x;
}

/* A sum over the window, then a division. */
static double nni_ops(const struct pare_node *n)
{
    const struct pare_window_attr *a = n->attr;
    double taps = 1;

    for (int i = 0; i < a->kernel_shape.n; i++)
        taps *= (double)a->kernel_shape.v[i];
    return (taps + 1) * (double)pare_numel(&n->out[0]->t);
}

const struct pare_op pare_op_average_pool = {
    .type = "AveragePool",
    .doc = "Mean of each window.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .flags = PARE_OP_HOMOGENEOUS | PARE_OP_POOL | PARE_OP_INT8_JOIN | PARE_OP_MEAN,
    .torch = "AvgPool#d",
    .qlinear_type = "QLinearAveragePool",
    .infer = pare_pool_infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_channels,
    .nni_ops = nni_ops,
    .constant_channel = constant_channel,
};
