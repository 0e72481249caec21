/* log_softmax.c - LogSoftmax: x - log sum exp(x) along an axis. */
#include <math.h>

#include "../../tensor/vmath.h"
#include "softmax_family.h"

/* The largest is subtracted first, so that exp() cannot overflow. */
static void lane(const float *x, float *y, int64_t count, int64_t step)
{
    float top = x[0];
    double sum = 0;

    for (int64_t i = 1; i < count; i++)
        top = x[i * step] > top ? x[i * step] : top;
    for (int64_t i = 0; i < count; i++)
        sum += (double)expf(x[i * step] - top);
    sum = log(sum);
    for (int64_t i = 0; i < count; i++)
        y[i * step] = (float)((double)(x[i * step] - top) - sum);
}

static void lanes(const float *x, float *y, int64_t len, int64_t inner)
{
    for (int64_t i = 0; i < inner; i++)
        lane(x + i, y + i, len, inner);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_softmax_each(n, lanes);
    return 0;
}

/* gx += gy - exp(y) sum of gy, several columns at a time. */
PARE_SIMD static void lanes_back(const float *y, const float *gy, float *gx, int64_t len,
                                 int64_t inner)
{
    enum { WIDTH = PARE_SOFTMAX_WIDTH };

    for (int64_t at = 0; at < inner; at += WIDTH) {
        int64_t n = inner - at < WIDTH ? inner - at : WIDTH;
        double sum[WIDTH] = { 0 };

        for (int64_t i = 0; i < len; i++)
            for (int64_t k = 0; k < n; k++)
                sum[k] += (double)gy[i * inner + at + k];
        for (int64_t i = 0; i < len; i++)
            for (int64_t k = 0; k < n; k++) {
                int64_t to = i * inner + at + k;

                gx[to] += gy[to] - pare_expf(y[to]) * (float)sum[k];
            }
    }
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return pare_softmax_backward(n, lanes_back);
}

const struct pare_op pare_op_log_softmax = {
    .type = "LogSoftmax",
    .doc = "The logarithm of Softmax.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_SOFTMAX,
    .attrs = pare_softmax_attrs,
    .attr_size = sizeof(struct pare_softmax),
    .infer = pare_softmax_infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_softmax_ties,
    .row_axis = pare_softmax_row_axis,
};
