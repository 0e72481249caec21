/* mse_scales.c - weight scales with the least squared error, by trying candidate ranges. */
#include "mse_scales.h"

#include "../base/simd.h"

#define BLOCK 256
#define ROUNDER 12582912.0f /* see quantize_math.c */
#define TRIES 24
#define PART 0.03 /* fraction by which the range shrinks from one candidate to the next */

PARE_SIMD static double error_row(const float *x, int64_t n, const float k[4])
{
    float scale = k[0], zero = k[1], lo = k[2], hi = k[3];
    double sum = 0;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        float part = 0;

#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < m; i++) {
            float v = x[at + i] / scale + zero, e;

            v = v < lo ? lo : v;
            v = v > hi ? hi : v;
            e = (v + ROUNDER - ROUNDER - zero) * scale - x[at + i];
            part += e * e <= 3e38f ? e * e : 0;
        }
        sum += (double)part;
    }
    return sum;
}

struct work {
    const struct pare_quant_point *p;
    const float *x, *scale, *zero;
    double *sum; /* (threads, channels) */
};

static void error_fn(const struct pare_row *row, void *user)
{
    const struct work *w = user;
    const float k[4] = { w->scale[row->channel], w->zero[row->channel], (float)w->p->q->qmin,
                         (float)w->p->q->qmax };

    w->sum[row->thread * w->p->n + row->channel] += error_row(w->x + row->at, row->n, k);
}

/* Keeps this candidate's scales for the channels where its error is the least so far. */
static void keep_best(const struct work *w, int threads, double *least)
{
    for (int64_t c = 0; c < w->p->n; c++) {
        double sum = 0;

        for (int t = 0; t < threads; t++) {
            sum += w->sum[t * w->p->n + c];
            w->sum[t * w->p->n + c] = 0;
        }
        if (least[c] >= 0 && !(sum < least[c]))
            continue;
        least[c] = sum;
        w->p->scale[c] = w->scale[c];
        w->p->zero[c] = w->zero[c];
    }
}

int pare_quant_point_fit_mse(const struct pare_quant_point *p, const struct pare_tensor *x,
                             struct pare_err *err)
{
    struct pare_arena *a = pare_compression_scratch(pare_layer_compression(p->layer));
    int threads = pare_rows_threads(p->q, x);
    size_t n = (size_t)p->n;
    float *lo = pare_alloc_raw(a, 4 * n, sizeof(*lo)), *scale, *zero;
    double *least = pare_alloc(a, ((size_t)threads + 1) * n, sizeof(*least));
    struct work w = { .p = p, .x = pare_f32(x) };

    if (!lo || !least)
        return pare_no_memory(err, "for scales");
    w.scale = scale = lo + 2 * n;
    w.zero = zero = lo + 3 * n;
    w.sum = least + n;
    PARE_TRY(pare_quant_point_range(p, x, lo, lo + n, err));
    for (size_t c = 0; c < n; c++)
        least[c] = -1;
    for (int i = 0; i < TRIES; i++) {
        double part = 1 - PART * i;

        for (size_t c = 0; c < n; c++)
            pare_quant_fit(p->q, part * (double)lo[c], part * (double)lo[n + c], &scale[c],
                           &zero[c]);
        pare_rows_each(p->q, x, error_fn, &w);
        keep_best(&w, threads, least);
    }
    return 0;
}
