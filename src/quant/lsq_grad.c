/* lsq_grad.c - learned scales of lsq and lsq_plus: initialization and gradients. */
#include "lsq_grad.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../base/simd.h"

const struct pare_opt pare_lsq_table[] = { PARE_FOLD_BN(pare_lsq_opts), PARE_OPT_END };

static const char *const names[PARE_QUANT_SITES] = { "weight", "input", "output" };

static int64_t n_scales(const struct pare_layer *l, enum pare_quant_site site)
{
    return site == PARE_WEIGHT ? pare_rows_channels(pare_layer_quant(l, site), pare_layer_weight(l))
                               : 1;
}

static int make_learnable(struct pare_layer *l, enum pare_quant_site site, const char *what,
                          struct pare_err *err)
{
    int64_t n = n_scales(l, site);
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", names[site], what);
    return pare_layer_buffer(l, name, PARE_F32, 1, &n, err) && pare_layer_learn(l, name, err)
               ? 0
               : err->code;
}

int pare_lsq_start(struct pare_compression *r, const char *also, struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(r); i++)
        for (int site = 0; site < PARE_QUANT_SITES; site++) {
            struct pare_layer *l = pare_compression_layer(r, i);
            const struct pare_quant *q = pare_layer_quant(l, (enum pare_quant_site)site);

            if (!q)
                continue;
            if (site != PARE_WEIGHT && q->axis >= 0)
                return pare_fail(
                    err, PARE_ECONFIG,
                    "the %s of layer '%s' has one learned scale, so it cannot be per_channel",
                    names[site], pare_layer_name(l));
            PARE_TRY(make_learnable(l, (enum pare_quant_site)site, "scale", err));
            if (also && *also)
                PARE_TRY(make_learnable(l, (enum pare_quant_site)site, also, err));
        }
    return 0;
}

bool pare_lsq_begins(struct pare_layer *l, enum pare_quant_site site)
{
    const struct pare_lsq_state *s = pare_layer_state(l);

    return !s->ready[site] &&
           (site == PARE_WEIGHT ||
            (pare_compression_is_training(pare_layer_compression(l)) && !pare_layer_waits(l)));
}

/* ---- initialization -------------------------------------------------------------------------- */

PARE_SIMD static double sum_abs(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t at = 0; at < n; at += 256) {
        int64_t m = n - at < 256 ? n - at : 256;
        float part = 0;

#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < m; i++)
            part += fabsf(x[at + i]) <= 3e38f ? fabsf(x[at + i]) : 0;
        sum += (double)part;
    }
    return sum;
}

struct means {
    const float *x;
    double *sum; /* per channel */
};

static void mean_fn(const struct pare_row *row, void *user)
{
    struct means *m = user;

    m->sum[row->channel] += sum_abs(m->x + row->at, row->n);
}

/* Runs once, so without threads. */
int pare_lsq_init(const struct pare_quant_point *p, const struct pare_tensor *x,
                  struct pare_err *err)
{
    struct pare_lsq_state *s = pare_layer_state(p->layer);
    struct pare_arena *a = pare_compression_scratch(pare_layer_compression(p->layer));
    struct means m = { pare_f32(x), pare_alloc(a, (size_t)p->n + 1, sizeof(double)) };
    struct pare_quant alone = *p->q;
    double count;

    if (!m.sum)
        return pare_no_memory(err, "for scales");
    alone.threads = 1;
    pare_rows_each(&alone, x, mean_fn, &m);
    m.sum[p->n] = (double)pare_numel(x) / (double)p->n;
    if (p->site != PARE_WEIGHT)
        PARE_TRY(pare_compression_merge(pare_layer_compression(p->layer), PARE_MERGE_SUM, PARE_F64,
                                        m.sum, p->n + 1, err));
    count = m.sum[p->n];
    s->ready[p->site] = false;
    for (int64_t c = 0; c < p->n; c++) {
        double top = (double)p->q->qmax - (double)p->zero[c];

        s->ready[p->site] |= m.sum[c] > 0;
        p->scale[c] = count > 0 ? (float)(2 * m.sum[c] / count / sqrt(top > 1 ? top : 1)) : 0;
        p->scale[c] = pare_scale_limit(p->scale[c]);
    }
    return 0;
}

/* ---- gradients ------------------------------------------------------------------------------- */

#define BLOCK 256
#define ROUNDER 12582912.0f /* see quantize_math.c */

/* k: scale, zero point, qmin, qmax.  Sums within a block are float, sums of blocks double. */
PARE_SIMD static void lsq_row(const float *x, const float *gy, float *gx, int64_t n,
                              const float k[4], double sum[2])
{
    float scale = k[0], zero = k[1], lo = k[2], hi = k[3];

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        float ds = 0, dz = 0;

#pragma omp simd reduction(+ : ds, dz)
        for (int64_t i = 0; i < m; i++) {
            float v = x[at + i] / scale + zero, g = gy[at + i], w = v < lo ? lo : v, r, in;

            w = w > hi ? hi : w;
            r = w + ROUNDER - ROUNDER;
            in = w == v ? g : 0;
            gx[at + i] = in;
            ds += g * (r - (w == v ? v : zero));
            dz += g - in;
        }
        sum[0] += (double)ds;
        sum[1] -= (double)dz * (double)scale;
    }
}

struct work {
    const struct pare_quant_point *p;
    const float *x;
    const struct pare_lsq_grad *g;
    double *sum; /* (threads, channels, 2) */
};

static void lsq_fn(const struct pare_row *row, void *user)
{
    const struct work *w = user;
    const struct pare_quant_point *p = w->p;
    const float k[4] = { p->scale[row->channel], p->zero[row->channel], (float)p->q->qmin,
                         (float)p->q->qmax };

    lsq_row(w->x + row->at, pare_f32_mut(w->g->gy) + row->at, pare_f32_mut(w->g->gx) + row->at,
            row->n, k, w->sum + 2 * (row->thread * p->n + row->channel));
}

int pare_lsq_backward(const struct pare_quant_point *p, const struct pare_tensor *x,
                      const struct pare_lsq_grad *g, struct pare_err *err)
{
    int64_t all = pare_rows_threads(p->q, x) * p->n;
    double part = p->site == PARE_WEIGHT ? 1
                                         : pare_compression_share(pare_layer_compression(p->layer));
    double count = part > 0 ? (double)pare_numel(x) / (double)p->n / part : 1;
    struct work w = { .p = p, .x = pare_f32(x), .g = g };

    w.sum = pare_alloc(pare_compression_scratch(pare_layer_compression(p->layer)), 2 * (size_t)all,
                       sizeof(*w.sum));
    if (!w.sum)
        return pare_no_memory(err, "for the gradient of a scale");
    pare_rows_each(p->q, x, lsq_fn, &w);
    for (int64_t i = 0; i < all; i++) {
        int64_t c = i % p->n;
        double top = (double)p->q->qmax - (double)p->zero[c];

        g->ds[c] += (float)(w.sum[2 * i] / sqrt((top > 1 ? top : 1) * (count > 0 ? count : 1)));
        if (g->dz)
            g->dz[c] += (float)w.sum[2 * i + 1];
    }
    return 0;
}

int pare_lsq_on_step(struct pare_compression *r, int64_t step, struct pare_err *err)
{
    (void)step;
    for (int i = 0; i < pare_compression_layers(r); i++)
        for (int site = 0; site < PARE_QUANT_SITES; site++) {
            struct pare_layer *l = pare_compression_layer(r, i);
            const struct pare_lsq_state *s = pare_layer_state(l);
            struct pare_tensor *scale;

            if (!pare_layer_quant(l, (enum pare_quant_site)site) || !s->ready[site])
                continue;
            scale = pare_layer_scale(l, (enum pare_quant_site)site,
                                     n_scales(l, (enum pare_quant_site)site), err);
            if (!scale)
                return err->code;
            for (int64_t c = 0; c < pare_numel(scale); c++)
                pare_f32_mut(scale)[c] = pare_scale_limit(pare_f32(scale)[c]);
        }
    return 0;
}
