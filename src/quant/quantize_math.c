/* quantize_math.c - scales from ranges, rounding, and gradients that are 0 outside of the range. */
#include <math.h>

#include "../base/simd.h"
#include "channel_rows.h"

float pare_scale_limit(float scale)
{
    if (!(scale >= PARE_SCALE_MIN)) /* 0, too small, or NaN */
        return PARE_SCALE_MIN;
    return scale < PARE_SCALE_MAX ? scale : PARE_SCALE_MAX;
}

/* Symmetric: the larger magnitude is the end of half the range; if unsigned, the zero point is the
 * middle, rounded down, as in NNI 2.x. */
void pare_quant_fit(const struct pare_quant *q, double lo, double hi, float *scale,
                    float *zero_point)
{
    double steps = (double)(q->qmax - q->qmin), s, z;

    lo = lo < 0 ? lo : 0; /* also turns NaN into 0 */
    hi = hi > 0 ? hi : 0;
    if (q->symmetric) {
        s = (-lo > hi ? -lo : hi) / (steps / 2);
        z = q->has_sign ? 0 : floor((double)(q->qmin + q->qmax) / 2);
    } else {
        s = (hi - lo) / steps;
        z = s > 0 ? (double)q->qmin - rint(lo / s) : (double)q->qmin;
    }
    z = z < (double)q->qmin ? (double)q->qmin : z > (double)q->qmax ? (double)q->qmax : z;
    *scale = pare_scale_limit(s < 1e38 ? (float)s : 1e38f);
    *zero_point = (float)z;
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* Adding 1.5 * 2^23 rounds to an integer, half to even, up to 2^22: enough for 16-bit integers.
 * Unlike rintf() this vectorizes on every machine. */
#define ROUNDER 12582912.0f

struct work {
    const struct pare_quant *q;
    const float *x, *gy, *scale, *zero;
    float *out;
};

/* round(clamp(x / S + z)) as in NNI if z is not an integer.  An integer z is added after rounding:
 * clamp(round(x / S) + z), bit-identical to QuantizeLinear.  NaN is kept; x and y may be the
 * same. */
PARE_SIMD static void apply_row(const float *x, float *y, int64_t n, const float k[4])
{
    float scale = k[0], zero = k[1], lo = k[2], hi = k[3];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] / scale + zero;

        v = v < lo ? lo : v;
        v = v > hi ? hi : v;
        y[i] = (v + ROUNDER - ROUNDER - zero) * scale;
    }
}

/* The same where neighboring elements have different scales. */
PARE_SIMD static void apply_columns(const struct work *w, int64_t at, int64_t n)
{
    const float *x = w->x + at, *scale = w->scale, *zero = w->zero;
    float lo = (float)w->q->qmin, hi = (float)w->q->qmax, *y = w->out + at;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float z = zero[i], part = z + ROUNDER - ROUNDER == z ? 0 : z;
        float v = x[i] / scale[i] + part, least = lo - (z - part), most = hi - (z - part);

        v = v < least ? least : v;
        v = v > most ? most : v;
        y[i] = (v + ROUNDER - ROUNDER - part) * scale[i];
    }
}

PARE_SIMD static void clip_row(const float *x, const float *gy, float *gx, int64_t n,
                               const float k[4])
{
    float scale = k[0], zero = k[1], lo = k[2], hi = k[3];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] / scale + zero + ROUNDER - ROUNDER, g = gy[i];

        gx[i] = ((v >= lo) & (v <= hi)) ? g : 0;
    }
}

PARE_SIMD static void clip_columns(const struct work *w, int64_t at, int64_t n)
{
    const float *x = w->x + at, *gy = w->gy + at, *scale = w->scale, *zero = w->zero;
    float lo = (float)w->q->qmin, hi = (float)w->q->qmax, *gx = w->out + at;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] / scale[i] + zero[i] + ROUNDER - ROUNDER, g = gy[i];

        gx[i] = ((v >= lo) & (v <= hi)) ? g : 0;
    }
}

static void row_task(const struct pare_row *row, void *user)
{
    const struct work *w = user;
    float z = w->zero[row->channel], part = w->gy || z != rintf(z) ? z : 0;
    const float k[4] = { w->scale[row->channel], part, (float)w->q->qmin - (z - part),
                         (float)w->q->qmax - (z - part) };

    if (w->gy)
        clip_row(w->x + row->at, w->gy + row->at, w->out + row->at, row->n, k);
    else
        apply_row(w->x + row->at, w->out + row->at, row->n, k);
}

static void column_task(const struct work *w, int64_t rows, int64_t n, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        if (w->gy)
            clip_columns(w, i * n, n);
        else
            apply_columns(w, i * n, n);
}

static void each_row_or_column(struct work *w, const struct pare_tensor *x)
{
    int64_t n = pare_rows_channels(w->q, x);

    w->x = pare_f32(x);
    if (n > 1 && w->q->axis == x->rank - 1)
        column_task(w, pare_numel(x) / n, n, pare_rows_threads(w->q, x));
    else
        pare_rows_each(w->q, x, row_task, w);
}

void pare_quant_apply(const struct pare_quant *q, const struct pare_tensor *x, const float *scale,
                      const float *zero_point, struct pare_tensor *y)
{
    struct work w = { .q = q, .scale = scale, .zero = zero_point, .out = pare_f32_mut(y) };

    each_row_or_column(&w, x);
}

void pare_quant_clip_grad(const struct pare_quant *q, const struct pare_tensor *x,
                          const float *scale, const float *zero_point, const struct pare_tensor *gy,
                          struct pare_tensor *gx)
{
    struct work w = { .q = q, .scale = scale, .zero = zero_point, .out = pare_f32_mut(gx) };

    w.gy = pare_f32(gy);
    each_row_or_column(&w, x);
}
