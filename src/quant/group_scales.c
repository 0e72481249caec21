/* group_scales.c - group-wise weight quantization: ranges, best clipping, rounding. */
#include "group_scales.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/simd.h"
#include "channel_rows.h"
#include "mse_scales.h"

#define ROUNDER 12582912.0f /* see quantize_math.c */
#define TRIES 26
#define PART 0.02f /* fraction by which the range shrinks from one candidate to the next */
#define PIECE 512  /* elements of a group processed at a time, on the stack */
#define ALONE 32768
#define USUAL 64 /* group size up to 4 bits */

/* ---- the layer's groups ---------------------------------------------------------------------- */

int pare_groups(const struct pare_layer *l, int64_t size, struct pare_groups *g,
                struct pare_err *err)
{
    const struct pare_tensor *w = &l->w;

    if (w->rank != 2 || l->in_axis < 0 || size < 1)
        return pare_fail(err, PARE_ECONFIG,
                         "quantization groups need a weight matrix, but the weight is %s",
                         l->info.torch);
    *g = (struct pare_groups){ .axis = l->in_axis, .size = size };
    g->dim[0] = w->dim[0];
    g->dim[1] = w->dim[1];
    g->dim[g->axis] = w->dim[g->axis] / size + (w->dim[g->axis] % size != 0);
    g->n = g->dim[0] * g->dim[1];
    return 0;
}

int pare_groups_keep(struct pare_layer *l, int64_t size, struct pare_err *err)
{
    const int64_t one = 1;
    struct pare_tensor *t = pare_layer_buffer(l, "weight_group", PARE_I64, 1, &one, err);

    if (!t)
        return err->code;
    pare_i64_mut(t)[0] = size;
    return 0;
}

int64_t pare_groups_kept(const struct pare_layer *l)
{
    for (const struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strcmp(b->name, "weight_group") && b->t.dtype == PARE_I64 && pare_numel(&b->t) == 1)
            return pare_i64(&b->t)[0] > 0 ? pare_i64(&b->t)[0] : 0;
    return -1;
}

int64_t pare_group_size(const struct pare_layer *l, const struct pare_quant *q, int64_t size)
{
    if (pare_layer_weight(l)->rank != 2 || pare_layer_in_axis(l) < 0)
        return 0;
    return size < 0 ? (q->bits <= 4 ? USUAL : 0) : size;
}

void pare_group_range(const struct pare_quant *q, struct pare_group_fit *f)
{
    int64_t half = (int64_t)1 << (q->bits - 1);

    f->symmetric = q->symmetric;
    f->qmin = q->has_sign && (q->bits < 8 || !q->symmetric) ? -half : q->qmin;
    f->qmax = q->qmax;
    f->middle = q->has_sign ? 0 : half;
    f->threads = q->threads;
}

/* ---- one group ----------------------------------------------------------------------------- */

/* Elements at, at + step, ... of a weight. */
struct run {
    int64_t at, step, n;
};

static void range(const float *x, struct run r, float *lo, float *hi)
{
    *lo = *hi = 0;
    for (int64_t i = 0; i < r.n; i++) {
        float v = x[r.at + i * r.step];

        *lo = v < *lo && v >= -FLT_MAX ? v : *lo;
        *hi = v > *hi && v <= FLT_MAX ? v : *hi;
    }
}

static void scale_of(const struct pare_group_fit *f, float lo, float hi, float *scale, float *zero)
{
    float up = hi / (float)(f->qmax - f->middle), down = -lo / (float)(f->middle - f->qmin);
    float z;

    if (f->symmetric) {
        *scale = pare_scale_limit(up > down ? up : down);
        *zero = (float)f->middle;
        return;
    }
    *scale = pare_scale_limit(hi / (float)(f->qmax - f->qmin) - lo / (float)(f->qmax - f->qmin));
    z = rintf((float)f->qmin - lo / *scale);
    z = z < (float)f->qmin ? (float)f->qmin : z;
    *zero = z > (float)f->qmax ? (float)f->qmax : z;
}

/* The sum of (x' - x)^2, x' = scale * (clamp(round(x / scale) + zero) - zero). */
PARE_SIMD static float error_of(const float *x, int64_t n, const float k[4])
{
    float scale = k[0], by = 1 / k[0], lo = k[2] - k[1], hi = k[3] - k[1], sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * by, e;

        v = v < lo ? lo : v;
        v = v > hi ? hi : v;
        e = (v + ROUNDER - ROUNDER) * scale - x[i];
        sum += e * e <= FLT_MAX ? e * e : 0;
    }
    return sum;
}

static double error_run(const struct pare_group_fit *f, const float *x, struct run r, float scale,
                        float zero)
{
    const float k[4] = { scale, zero, (float)f->qmin, (float)f->qmax };
    float buf[PIECE];
    double sum = 0;

    if (r.step == 1)
        return (double)error_of(x + r.at, r.n, k);
    for (int64_t from = 0; from < r.n; from += PIECE) {
        int64_t n = r.n - from < PIECE ? r.n - from : PIECE;

        for (int64_t i = 0; i < n; i++)
            buf[i] = x[r.at + (from + i) * r.step];
        sum += (double)error_of(buf, n, k);
    }
    return sum;
}

static void fit_run(const struct pare_group_fit *f, const float *x, struct run r, float *scale,
                    float *zero)
{
    float lo, hi;
    double least;

    range(x, r, &lo, &hi);
    scale_of(f, lo, hi, scale, zero);
    if (!f->mse || !(hi > lo))
        return;
    least = error_run(f, x, r, *scale, *zero);
    for (int i = 1; i < TRIES; i++) {
        float part = 1 - PART * (float)i, s, z;
        double e;

        scale_of(f, part * lo, part * hi, &s, &z);
        e = error_run(f, x, r, s, z);
        if (e < least) {
            least = e;
            *scale = s;
            *zero = z;
        }
    }
}

static void round_run(const struct pare_group_fit *f, const float *x, struct run r, float scale,
                      float zero, float *y)
{
    float lo = (float)f->qmin - zero, hi = (float)f->qmax - zero;

    for (int64_t i = 0; i < r.n; i++) {
        int64_t at = r.at + i * r.step;
        float v = x[at] / scale;

        v = v >= lo ? v : lo; /* also for NaN */
        v = v < hi ? v : hi;
        y[at] = (v + ROUNDER - ROUNDER) * scale;
    }
}

/* ---- all groups ------------------------------------------------------------------------------ */

/* The elements that scale i applies to. */
static struct run run_of(const struct pare_groups *g, const struct pare_tensor *w, int64_t i)
{
    int64_t row = i / g->dim[1], column = i % g->dim[1], K = w->dim[g->axis];
    int64_t block = g->axis ? column : row, from = block * g->size;
    struct run r = { .step = g->axis ? 1 : w->dim[1] };

    r.at = g->axis ? row * K + from : from * w->dim[1] + column;
    r.n = K - from < g->size ? K - from : g->size;
    return r;
}

void pare_groups_round(const struct pare_groups *g, const struct pare_group_fit *f,
                       const struct pare_tensor *w, float *scale, float *zero,
                       struct pare_tensor *y, bool fit)
{
    int threads = f->threads > 1 && pare_numel(w) > ALONE ? f->threads : 1;

#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < g->n; i++) {
        struct run r = run_of(g, w, i);

        if (fit)
            fit_run(f, pare_f32(w), r, &scale[i], &zero[i]);
        round_run(f, pare_f32(w), r, scale[i], zero[i], pare_f32_mut(y));
    }
}

/* ---- a layer --------------------------------------------------------------------------------- */

static int quantize_groups(struct pare_layer *l, int64_t size, bool mse,
                           const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err)
{
    struct pare_group_fit f = { .mse = mse };
    struct pare_tensor *scale, *zero;
    struct pare_groups g;

    PARE_TRY(pare_groups(l, size, &g, err));
    pare_group_range(pare_layer_quant(l, PARE_WEIGHT), &f);
    scale = pare_layer_scale(l, PARE_WEIGHT, g.n, err);
    zero = scale ? pare_layer_zero_point(l, PARE_WEIGHT, g.n, err) : NULL;
    if (!zero)
        return err->code;
    pare_groups_round(&g, &f, x, pare_f32_mut(scale), pare_f32_mut(zero), y, true);
    return 0;
}

int pare_weight_by_groups(struct pare_layer *l, bool mse, const struct pare_tensor *x,
                          struct pare_tensor *y, struct pare_err *err)
{
    int64_t size = pare_groups_kept(l);
    struct pare_quant_point p;

    if (size > 0)
        return quantize_groups(l, size, mse, x, y, err);
    PARE_TRY(pare_quant_point_open(l, PARE_WEIGHT, x, &p, err));
    PARE_TRY(mse ? pare_quant_point_fit_mse(&p, x, err) : pare_quant_point_fit(&p, x, err));
    pare_quant_apply(p.q, x, p.scale, p.zero, y);
    return 0;
}
