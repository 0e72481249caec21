/* channel_rows.c - loops over rows of one channel, and ranges of quantized tensors. */
#include "channel_rows.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/simd.h"

#define ALONE 32768 /* elements that are not worth a second thread */

int64_t pare_rows_channels(const struct pare_quant *q, const struct pare_tensor *x)
{
    return q->axis >= 0 && q->axis < x->rank ? x->dim[q->axis] : 1;
}

int pare_rows_threads(const struct pare_quant *q, const struct pare_tensor *x)
{
    return q->threads > 1 && pare_numel(x) > ALONE ? q->threads : 1;
}

/* If there are fewer rows than threads, rows are split. */
void pare_rows_each(const struct pare_quant *q, const struct pare_tensor *x, pare_row_fn *fn,
                    void *user)
{
    int64_t channels = pare_rows_channels(q, x), inner = 1, rows, parts;
    int threads = pare_rows_threads(q, x);

    for (int i = q->axis < x->rank ? q->axis + 1 : 0; i < x->rank; i++)
        inner *= x->dim[i];
    rows = inner ? pare_numel(x) / inner : 0;
    parts = rows >= threads ? 1 : threads;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static, 1)
    for (int t = 0; t < threads; t++)
        for (int64_t k = rows * parts * t / threads; k < rows * parts * (t + 1) / threads; k++) {
            int64_t row = k / parts, from = inner * (k % parts) / parts;

            fn(&(struct pare_row){ row % channels, row * inner + from,
                                   inner * (k % parts + 1) / parts - from, t },
               user);
        }
}

/* ---- quantization points --------------------------------------------------------------------- */

int pare_quant_point_open(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, struct pare_quant_point *p,
                          struct pare_err *err)
{
    struct pare_tensor *scale, *zero;

    *p = (struct pare_quant_point){ .layer = l, .site = site, .q = pare_layer_quant(l, site) };
    if (!p->q)
        return pare_fail(err, PARE_ECONFIG, "it has no quantization settings");
    if (p->q->axis >= x->rank)
        return pare_fail(err, PARE_ECONFIG,
                         "per_channel is along dimension %d, but the tensor has only %d",
                         p->q->axis, x->rank);
    p->n = pare_rows_channels(p->q, x);
    scale = pare_layer_scale(l, site, p->n, err);
    zero = scale ? pare_layer_zero_point(l, site, p->n, err) : NULL;
    if (!zero)
        return err->code;
    p->scale = pare_f32_mut(scale);
    p->zero = pare_f32_mut(zero);
    return 0;
}

struct pare_tensor *pare_quant_point_buffer(const struct pare_quant_point *p, const char *what,
                                            struct pare_err *err)
{
    static const char *const names[PARE_QUANT_SITES] = { "weight", "input", "output" };
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", what, names[p->site]);
    return pare_layer_buffer(p->layer, name, PARE_F32, 1, &p->n, err);
}

int pare_quant_point_whole(const struct pare_quant_point *p, const char *quantizer,
                           struct pare_err *err)
{
    if (p->q->axis < 0)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "quantizer %s has one scale per tensor and does not support per_channel; "
                     "select quant_scheme per_tensor_symmetric with --config",
                     quantizer);
}

bool pare_layer_waits(const struct pare_layer *l)
{
    return pare_compression_steps(pare_layer_compression(l)) < pare_layer_start_step(l);
}

void pare_copy(const struct pare_tensor *x, struct pare_tensor *y)
{
    if (x->data != y->data)
        memcpy(y->data, x->data, (size_t)pare_numel(x) * sizeof(float));
}

/* ---- ranges ---------------------------------------------------------------------------------- */

#define LANES 16

/* Sixteen independent lanes, as wide as vectors; comparisons with NaN are false. */
PARE_SIMD static void range_row(const float *x, int64_t n, float *lo, float *hi)
{
    float a[LANES], b[LANES];
    int64_t i = 0;

    for (int k = 0; k < LANES; k++)
        a[k] = *lo, b[k] = *hi;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = x[i + k], down = v >= -FLT_MAX ? v : FLT_MAX,
                  up = v <= FLT_MAX ? v : -FLT_MAX;

            a[k] = down < a[k] ? down : a[k];
            b[k] = up > b[k] ? up : b[k];
        }
    for (; i < n; i++) {
        a[0] = x[i] >= -FLT_MAX && x[i] < a[0] ? x[i] : a[0];
        b[0] = x[i] <= FLT_MAX && x[i] > b[0] ? x[i] : b[0];
    }
    for (int k = 0; k < LANES; k++) {
        *lo = a[k] < *lo ? a[k] : *lo;
        *hi = b[k] > *hi ? b[k] : *hi;
    }
}

struct ranges {
    const float *x;
    int64_t channels;
    float *lo, *hi; /* (threads, channels) */
};

static void range_fn(const struct pare_row *row, void *user)
{
    struct ranges *r = user;
    int64_t to = row->thread * r->channels + row->channel;

    range_row(r->x + row->at, row->n, &r->lo[to], &r->hi[to]);
}

/* Merges the ranges over all processes that have parts of the batch; a process without values does
 * not contribute. */
static int merge_ranges(const struct pare_quant_point *p, float *lo, float *hi,
                        struct pare_err *err)
{
    struct pare_compression *r = pare_layer_compression(p->layer);

    if (p->site == PARE_WEIGHT)
        return 0;
    PARE_TRY(pare_compression_merge(r, PARE_MERGE_MIN, PARE_F32, lo, p->n, err));
    return pare_compression_merge(r, PARE_MERGE_MAX, PARE_F32, hi, p->n, err);
}

int pare_quant_point_range(const struct pare_quant_point *p, const struct pare_tensor *x, float *lo,
                           float *hi, struct pare_err *err)
{
    int threads = pare_rows_threads(p->q, x);
    struct ranges r = { .x = pare_f32(x), .channels = p->n };
    int64_t all = threads * p->n;

    r.lo = pare_alloc_raw(pare_compression_scratch(pare_layer_compression(p->layer)),
                          2 * (size_t)all, sizeof(*r.lo));
    if (!r.lo)
        return pare_no_memory(err, "for ranges");
    r.hi = r.lo + all;
    for (int64_t i = 0; i < all; i++)
        r.lo[i] = FLT_MAX, r.hi[i] = -FLT_MAX;
    pare_rows_each(p->q, x, range_fn, &r);
    for (int64_t c = 0; c < p->n; c++) {
        lo[c] = r.lo[c];
        hi[c] = r.hi[c];
        for (int64_t i = c + p->n; i < all; i += p->n) {
            lo[c] = r.lo[i] < lo[c] ? r.lo[i] : lo[c];
            hi[c] = r.hi[i] > hi[c] ? r.hi[i] : hi[c];
        }
    }
    PARE_TRY(merge_ranges(p, lo, hi, err));
    for (int64_t c = 0; c < p->n; c++)
        if (lo[c] > hi[c])
            lo[c] = hi[c] = 0;
    return 0;
}

int pare_quant_point_fit(const struct pare_quant_point *p, const struct pare_tensor *x,
                         struct pare_err *err)
{
    struct pare_arena *a = pare_compression_scratch(pare_layer_compression(p->layer));
    float *lo = pare_alloc_raw(a, 2 * (size_t)p->n, sizeof(*lo));

    if (!lo)
        return pare_no_memory(err, "for ranges");
    PARE_TRY(pare_quant_point_range(p, x, lo, lo + p->n, err));
    for (int64_t c = 0; c < p->n; c++)
        pare_quant_fit(p->q, (double)lo[c], (double)lo[p->n + c], &p->scale[c], &p->zero[c]);
    return 0;
}

/* ---- quantizing ------------------------------------------------------------------------------ */

void pare_quant_point_round(const struct pare_quant_point *p, bool known,
                            const struct pare_tensor *x, struct pare_tensor *y)
{
    if (!known || pare_layer_waits(p->layer))
        pare_copy(x, y);
    else
        pare_quant_apply(p->q, x, p->scale, p->zero, y);
}

int pare_weight_by_range(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                         struct pare_err *err)
{
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, PARE_WEIGHT, x, &p, err));
    PARE_TRY(pare_quant_point_fit(&p, x, err));
    pare_quant_point_round(&p, true, x, y);
    return 0;
}
