/* quantize_dorefa.c - DoReFa quantizer: Zhou et al., "DoReFa-Net: training low bitwidth
 * convolutional neural networks with low bitwidth gradients", 2016.
 *
 *     with n = 2^bits - 1 steps:
 *     weights:      r = tanh(w) / (2 max |tanh(w)|) + 1/2,   y = 2 round(r n) / n - 1
 *     activations:  y = round(clamp(x, 0, 1) n) / n,
 *                   d loss / d x = d loss / d y within [0, 1], else 0
 *     gradients:    g' = 2 m (round(clamp(g / (2 m) + 1/2 + noise, 0, 1) k) / k - 1/2)
 *                   for each sample, with m = max |g|, k = 2^gradient_bits - 1 and noise within
 *                   half a step
 *
 * Quantized weights are never 0: their zero point is the middle, n / 2, which is not an integer.
 */
#include <math.h>
#include <stddef.h>

#include "../base/simd.h"
#include "../tensor/vmath.h"
#include "channel_rows.h"

struct opts {
    int64_t gradient_bits;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_INT("gradient_bits", offsetof(struct opts, gradient_bits),
             "bits of gradients through quantized activations (0: float)", 0, 0, 16),
    PARE_OPT_END
};
/* clang-format on */

/* k: 2 max |tanh(w)|, and the number of steps.  NaN is kept. */
PARE_SIMD static void weight_row(const float *x, float *y, int64_t n, const float k[2])
{
    float twice = k[0], steps = k[1];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = (pare_tanhf(x[i]) / twice + 0.5f) * steps;

        v = v < 0 ? 0 : v;
        v = v > steps ? steps : v;
        y[i] = 2 * ((v + PARE_ROUNDER - PARE_ROUNDER) / steps) - 1;
    }
}

PARE_SIMD static void clip_row(const float *x, const float *gy, float *gx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], g = gy[i];

        gx[i] = ((v >= 0) & (v <= 1)) ? g : 0;
    }
}

struct work {
    const float *x, *gy;
    float *out, k[2];
};

static void weight_fn(const struct pare_row *row, void *user)
{
    const struct work *w = user;

    weight_row(w->x + row->at, w->out + row->at, row->n, w->k);
}

static void clip_fn(const struct pare_row *row, void *user)
{
    const struct work *w = user;

    clip_row(w->x + row->at, w->gy + row->at, w->out + row->at, row->n);
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    struct work w = { .x = pare_f32(x), .out = pare_f32_mut(y) };
    struct pare_quant_point p;
    float lo, hi;

    PARE_TRY(pare_quant_point_open(l, PARE_WEIGHT, x, &p, err));
    PARE_TRY(pare_quant_point_whole(&p, "dorefa", err));
    PARE_TRY(pare_quant_point_range(&p, x, &lo, &hi, err));
    w.k[0] = 2 * pare_tanhf(-lo > hi ? -lo : hi);
    if (!(w.k[0] > 0))
        w.k[0] = 1; /* all 0: the middle, rounded to even */
    w.k[1] = (float)(((int64_t)1 << p.q->bits) - 1);
    *p.scale = 2 / w.k[1];
    *p.zero = w.k[1] / 2;
    if (pare_layer_waits(l))
        pare_copy(x, y);
    else
        pare_rows_each(p.q, x, weight_fn, &w);
    return 0;
}

/* 0 is qmin, 1 is qmax. */
static int activation(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                      struct pare_tensor *y, struct pare_err *err)
{
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    PARE_TRY(pare_quant_point_whole(&p, "dorefa", err));
    *p.scale = 1 / (float)(p.q->qmax - p.q->qmin);
    *p.zero = (float)p.q->qmin;
    pare_quant_point_round(&p, true, x, y);
    return 0;
}

PARE_ACTIVATIONS(activation)

/* ---- backward pass --------------------------------------------------------------------------- */

/* Quantizes the gradient of one sample. */
static void round_gradient(float *g, int64_t n, float steps, struct pare_rng *rng)
{
    float m = 0;

    for (int64_t i = 0; i < n; i++)
        m = fabsf(g[i]) > m ? fabsf(g[i]) : m;
    if (!(m > 0 && m <= FLT_MAX / 2))
        return;
    for (int64_t i = 0; i < n; i++) {
        float v = (g[i] / (2 * m) + 0.5f) * steps + (float)(pare_rng_uniform(rng) - 0.5);

        v = v < 0 ? 0 : v > steps ? steps : v;
        g[i] = 2 * m * (rintf(v) / steps - 0.5f);
    }
}

static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));
    struct work w = { .x = pare_f32(x), .gy = pare_f32(gy), .out = pare_f32_mut(gx) };
    int64_t samples = x->rank > 0 ? x->dim[0] : 1, size = samples ? pare_numel(x) / samples : 0;

    (void)err;
    if (site == PARE_WEIGHT || pare_layer_waits(l)) {
        pare_copy(gy, gx);
        return 0;
    }
    pare_rows_each(pare_layer_quant(l, site), x, clip_fn, &w);
    for (int64_t i = 0; i < samples && o->gradient_bits; i++)
        round_gradient(pare_f32_mut(gx) + i * size, size,
                       (float)(((int64_t)1 << o->gradient_bits) - 1),
                       pare_compression_rng(pare_layer_compression(l)));
    return 0;
}

const struct pare_algorithm pare_quantizer_dorefa = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "dorefa",
    .doc = "Quantize weights by their tanh to [-1, 1], activations to [0, 1].",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .flags = PARE_TRAINED,
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .input = input,
            .output = output,
            .backward = backward,
        },
};
