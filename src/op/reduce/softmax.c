/* softmax.c - Softmax: exp(x) / sum exp(x) along an axis. */
#include "../../tensor/vmath.h"
#include "lanes.h"
#include "softmax_family.h"

enum { WIDTH = PARE_SOFTMAX_WIDTH };

/* The largest is subtracted first, so that exp() cannot overflow. */
PARE_SIMD static void row(const float *x, float *y, int64_t n)
{
    float top[WIDTH], sum[WIDTH] = { 0 }, all = 0, best = x[0];
    int64_t i = 0, whole = n - n % WIDTH;

    for (int k = 0; k < WIDTH; k++)
        top[k] = best;
    for (; i < whole; i += WIDTH)
        for (int k = 0; k < WIDTH; k++)
            top[k] = x[i + k] > top[k] ? x[i + k] : top[k];
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    for (int k = 0; k < WIDTH; k++)
        best = top[k] > best ? top[k] : best;
    for (i = 0; i < n; i++)
        y[i] = pare_expf(x[i] - best);
    for (i = 0; i < whole; i += WIDTH)
        for (int k = 0; k < WIDTH; k++)
            sum[k] += y[i + k];
    for (; i < n; i++)
        all += y[i];
    for (int k = 0; k < WIDTH; k++)
        all += sum[k];
    for (i = 0; i < n; i++)
        y[i] /= all;
}

/* The same for n columns; step is the stride between rows. */
PARE_SIMD static void columns(const float *x, float *y, int64_t len, int64_t step, int64_t n)
{
    float top[WIDTH], sum[WIDTH] = { 0 };

    for (int64_t k = 0; k < n; k++)
        top[k] = x[k];
    for (int64_t i = 1; i < len; i++)
        for (int64_t k = 0; k < n; k++)
            top[k] = x[i * step + k] > top[k] ? x[i * step + k] : top[k];
    for (int64_t i = 0; i < len; i++)
        for (int64_t k = 0; k < n; k++) {
            y[i * step + k] = pare_expf(x[i * step + k] - top[k]);
            sum[k] += y[i * step + k];
        }
    for (int64_t i = 0; i < len; i++)
        for (int64_t k = 0; k < n; k++)
            y[i * step + k] /= sum[k];
}

static void lanes(const float *x, float *y, int64_t len, int64_t inner)
{
    if (inner == 1)
        row(x, y, len);
    else
        for (int64_t k = 0; k < inner; k += WIDTH)
            columns(x + k, y + k, len, inner, inner - k < WIDTH ? inner - k : WIDTH);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_softmax_each(n, lanes);
    return 0;
}

/* gx += y (gy - sum of gy y), along rows or down columns. */
PARE_SIMD static void row_back(const float *y, const float *gy, float *gx, int64_t n)
{
    float part[WIDTH] = { 0 }, sum = 0;
    int64_t i = 0, whole = n - n % WIDTH;

    for (; i < whole; i += WIDTH)
        for (int k = 0; k < WIDTH; k++)
            part[k] += gy[i + k] * y[i + k];
    for (; i < n; i++)
        sum += gy[i] * y[i];
    for (int k = 0; k < WIDTH; k++)
        sum += part[k];
    for (i = 0; i < n; i++)
        gx[i] += y[i] * (gy[i] - sum);
}

PARE_SIMD static void columns_back(const float *y, const float *gy, float *gx,
                                   const struct pare_lanes *l, int64_t n)
{
    float sum[WIDTH] = { 0 };

    for (int64_t i = 0; i < l->len; i++)
        for (int64_t k = 0; k < n; k++)
            sum[k] += gy[i * l->inner + k] * y[i * l->inner + k];
    for (int64_t i = 0; i < l->len; i++)
        for (int64_t k = 0; k < n; k++) {
            int64_t at = i * l->inner + k;

            gx[at] += y[at] * (gy[at] - sum[k]);
        }
}

static void lanes_back(const float *y, const float *gy, float *gx, int64_t len, int64_t inner)
{
    struct pare_lanes l = { 1, len, inner };

    if (inner == 1)
        row_back(y, gy, gx, len);
    else
        for (int64_t k = 0; k < inner; k += WIDTH)
            columns_back(y + k, gy + k, gx + k, &l, inner - k < WIDTH ? inner - k : WIDTH);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    return pare_softmax_backward(n, lanes_back);
}

const struct pare_op pare_op_softmax = {
    .type = "Softmax",
    .doc = "Positive numbers that sum to 1 along an axis.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_BY_Y | PARE_OP_SOFTMAX,
    .attrs = pare_softmax_attrs,
    .attr_size = sizeof(struct pare_softmax),
    .infer = pare_softmax_infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_softmax_ties,
    .row_axis = pare_softmax_row_axis,
};
