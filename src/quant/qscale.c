/* qscale.c - the integers behind rounded numbers: from scales in buffers, or found in the values. */
#include "qscale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../op/quant/quant_family.h"
#include "../tensor/tensor.h"
#include "conv_bn_quant.h"

#define EXACT 1e-3   /* of a step: what a float32 product may be away from the true value, ... */
#define TWICE 2.4e-7 /* ... and for its own size after two roundings */
#define PROBES 64

/* ---- buffers ------------------------------------------------------------------------------- */

static const struct pare_tensor *buffer(const struct pare_layer *l, enum pare_quant_site site,
                                        const char *what)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", pare_quant_site_name(site), what);
    for (const struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strcmp(b->name, name))
            return b->t.dtype == PARE_F32 ? &b->t : NULL;
    return NULL;
}

static int set_type(const struct pare_layer *l, enum pare_quant_site site, struct pare_qscale *g)
{
    const struct pare_quant *q = &l->quant->site[site];

    g->dtype = q->bits <= 8 ? (q->has_sign ? PARE_I8 : PARE_U8)
                            : (q->has_sign ? PARE_I16 : PARE_U16);
    g->qmin = q->qmin;
    g->qmax = q->qmax;
    if (site == PARE_WEIGHT && pare_groups_kept(l) >= 0 && q->bits <= 4)
        g->dtype = q->has_sign ? PARE_I4 : PARE_U4;
    return 0;
}

/* Scales of groups are as many as the weight has, and may use all that their bits hold. */
static int set_groups(const struct pare_layer *l, struct pare_qscale *g, struct pare_err *err)
{
    struct pare_group_fit f;

    PARE_TRY(pare_groups(l, pare_groups_kept(l), &g->by, err));
    if (g->by.n != g->n)
        return pare_fail(err, PARE_ECONFIG, "it has %lld scales for %lld groups", (long long)g->n,
                         (long long)g->by.n);
    pare_group_range(&l->quant->site[PARE_WEIGHT], &f);
    g->qmin = f.qmin;
    g->qmax = f.qmax;
    g->axis = g->by.axis;
    return 0;
}

/* Symmetric numbers around a middle that unsigned integers do not say, such as 127.5: none. */
static int check_numbers(const struct pare_qscale *g, const float *zero, struct pare_err *err)
{
    int lo, hi;

    pare_quant_range(g->dtype, &lo, &hi);
    for (int64_t i = 0; i < g->n; i++) {
        double z = zero ? (double)zero[i] : 0;

        if (!(g->scale[i] > 0) || isinf(g->scale[i]))
            return pare_fail(err, PARE_ECONFIG, "its scale is %g, which is no step size",
                             (double)g->scale[i]);
        if (!(z >= lo && z <= hi) || z != rint(z))
            return pare_fail(err, PARE_ECONFIG,
                             "its zero point is %g, a whole number from %d to %d is needed", z, lo,
                             hi);
        g->zero[i] = (int64_t)z;
    }
    return 0;
}

int pare_qscale_of(const struct pare_layer *l, enum pare_quant_site site, struct pare_arena *a,
                   struct pare_qscale *g, struct pare_err *err)
{
    const struct pare_tensor *scale = buffer(l, site, "scale");
    const struct pare_tensor *zero = buffer(l, site, "zero_point");

    *g = (struct pare_qscale){ .axis = -1 };
    set_type(l, site, g);
    if (!scale)
        return pare_fail(err, PARE_ECONFIG,
                         "quantizer %s gave it no scale, without which a file holds no integers; "
                         "perhaps it has seen no data yet",
                         l->compression->algorithm[0]->name);
    g->n = pare_numel(scale);
    if (g->n < 1 || (zero && pare_numel(zero) != g->n))
        return pare_fail(err, PARE_ECONFIG, "it has %lld scales and %lld zero points",
                         (long long)g->n, (long long)(zero ? pare_numel(zero) : 0));
    if (g->n > 1 || l->quant->site[site].axis >= 0)
        g->axis = l->quant->site[site].axis;
    if (site == PARE_WEIGHT && pare_groups_kept(l) > 0)
        PARE_TRY(set_groups(l, g, err));
    if (g->n > 1 && g->axis < 0)
        return pare_fail(err, PARE_ECONFIG, "it has %lld scales and no channels", (long long)g->n);
    g->scale = pare_alloc(a, (size_t)g->n, sizeof(*g->scale));
    g->zero = pare_alloc(a, (size_t)g->n, sizeof(*g->zero));
    if (!g->scale || !g->zero)
        return pare_no_memory(err, "for the integers of a layer");
    memcpy(g->scale, scale->data, (size_t)g->n * sizeof(float));
    return check_numbers(g, zero ? pare_f32(zero) : NULL, err);
}

bool pare_qscale_same(const struct pare_qscale *a, const struct pare_qscale *b)
{
    return a->dtype == b->dtype && a->n == b->n && a->axis == b->axis && a->qmin == b->qmin &&
           a->qmax == b->qmax && a->by.size == b->by.size &&
           !memcmp(a->scale, b->scale, (size_t)a->n * sizeof(float)) &&
           !memcmp(a->zero, b->zero, (size_t)a->n * sizeof(int64_t));
}

/* ---- weights ------------------------------------------------------------------------------- */

static void put(struct pare_tensor *q, int64_t at, int64_t v)
{
    if (pare_dtype_size(q->dtype) == 1)
        ((uint8_t *)q->data)[at] = (uint8_t)v;
    else
        ((uint16_t *)q->data)[at] = (uint16_t)v;
}

/* q = (w - offset) / scale + zero; the index of the first w that is not scale * (q - zero) +
 * offset, or -1. */
static int64_t row(const struct pare_qscale *g, int64_t c, const float *w, int64_t n, int64_t at,
                   struct pare_tensor *q)
{
    double s = (double)g->scale[c], off = (double)g->offset;
    int lo, hi;

    pare_quant_range(g->dtype, &lo, &hi);
    for (int64_t i = 0; i < n; i++) {
        double v = (double)w[i] - off, k = rint(v / s);

        if (!(fabs(v - k * s) <= EXACT * s + TWICE * fabs(v)) || k + (double)g->zero[c] < lo ||
            k + (double)g->zero[c] > hi)
            return at + i;
        put(q, at + i, (int64_t)k + g->zero[c]);
    }
    return -1;
}

/* The same of groups: scale c and those behind it for one number each, or, along rows, each for
 * by.size of them. */
static int64_t group_row(const struct pare_qscale *g, int64_t c, const float *w, int64_t n,
                         int64_t at, struct pare_tensor *q)
{
    int64_t step = g->axis ? g->by.size : 1;
    int lo, hi;

    pare_quant_range(g->dtype, &lo, &hi);
    for (int64_t i = 0; i < n; i++) {
        double v = (double)w[i], s = (double)g->scale[c + i / step], k = rint(v / s);
        int64_t z = g->zero[c + i / step];

        if (!(fabs(v - k * s) <= EXACT * s) || k + (double)z < lo || k + (double)z > hi)
            return at + i;
        ((uint8_t *)q->data)[at + i] = (uint8_t)((int64_t)k + z);
    }
    return -1;
}

static int64_t group_integers(const struct pare_qscale *g, const struct pare_tensor *w,
                              struct pare_tensor *q)
{
    for (int64_t r = 0; r < w->dim[0]; r++) {
        int64_t first = (g->axis ? r : r / g->by.size) * g->by.dim[1], at = r * w->dim[1];
        int64_t bad = group_row(g, first, pare_f32(w) + at, w->dim[1], at, q);

        if (bad >= 0)
            return bad;
    }
    return -1;
}

static int64_t integers(const struct pare_qscale *g, const struct pare_tensor *w,
                        struct pare_tensor *q)
{
    int64_t size[3] = { 1, 1, 1 };

    if (g->by.size)
        return group_integers(g, w, q);
    for (int i = 0; i < w->rank; i++)
        size[g->axis < 0 ? 2 : i < g->axis ? 0 : i == g->axis ? 1 : 2] *= w->dim[i];
    for (int64_t o = 0; o < size[0]; o++)
        for (int64_t c = 0; c < size[1]; c++) {
            int64_t at = (o * size[1] + c) * size[2];
            int64_t bad = row(g, g->n > 1 ? c : 0, pare_f32(w) + at, size[2], at, q);

            if (bad >= 0)
                return bad;
        }
    return -1;
}

/* Numbers without a scale, such as signs or DoReFa's odd multiples of 1 / (2^bits - 1): the
 * largest is 1, 2, ... or 127 steps. */
static bool find_scale(const struct pare_tensor *w, struct pare_qscale *g, struct pare_tensor *q)
{
    int64_t n = pare_numel(w);
    float largest = 0;

    for (int64_t i = 0; i < n; i++) {
        float v = fabsf(pare_f32(w)[i]);

        if (!(v <= 3e38f))
            return false;
        largest = v > largest ? v : largest;
    }
    for (int steps = 1; steps <= 127 && largest > 0; steps++) {
        g->scale[0] = largest / (float)steps;
        if (integers(g, w, q) < 0)
            return true;
    }
    return false;
}

/* Around a zero point z that is not whole: scale * (q - ceil(z)) + scale * (ceil(z) - z). */
static bool halfway(const struct pare_layer *l, struct pare_qscale *g, struct pare_tensor *q)
{
    const struct pare_tensor *scale = buffer(l, PARE_WEIGHT, "scale");
    const struct pare_tensor *zero = buffer(l, PARE_WEIGHT, "zero_point");
    double z;

    if (!scale || !zero || pare_numel(scale) != 1 || pare_numel(zero) != 1 ||
        l->quant->site[PARE_WEIGHT].bits > 8)
        return false;
    z = (double)*pare_f32(zero);
    g->scale[0] = *pare_f32(scale);
    if (!(z > 0 && z < 255) || !(g->scale[0] > 0) || isinf(g->scale[0]))
        return false;
    g->dtype = q->dtype = PARE_U8;
    g->zero[0] = (int64_t)ceil(z);
    g->offset = (float)((double)g->scale[0] * (ceil(z) - z));
    return integers(g, &l->weight->t, q) < 0;
}

static int only_values(const struct pare_layer *l, struct pare_arena *a, struct pare_qscale *g,
                       struct pare_tensor *q, struct pare_err *err)
{
    *g = (struct pare_qscale){ .dtype = PARE_I8, .qmin = -128, .qmax = 127, .axis = -1, .n = 1 };
    g->scale = pare_alloc(a, 1, sizeof(*g->scale));
    g->zero = pare_alloc(a, 1, sizeof(*g->zero));
    q->dtype = PARE_I8;
    if (!g->scale || !g->zero)
        return pare_no_memory(err, "for the integers of a layer");
    if (find_scale(&l->weight->t, g, q) || halfway(l, g, q))
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "the values that quantizer %s gave its weight in %d bits are not a scale "
                     "times integers that a file could hold (or it is not rounded yet, see "
                     "quant_start_step)",
                     l->compression->algorithm[0]->name, l->quant->site[PARE_WEIGHT].bits);
}

int pare_qweight(const struct pare_layer *l, struct pare_arena *a, struct pare_qscale *g,
                 struct pare_tensor *q, struct pare_err *err)
{
    const struct pare_tensor *w;
    struct pare_layer view;
    struct pare_err why;
    bool known = !pare_qscale_of(l, PARE_WEIGHT, a, g, &why);

    PARE_TRY(pare_conv_bn_view(l, a, &view, err));
    w = &view.weight->t;
    *q = *w;
    q->dtype = known ? g->dtype : PARE_I8;
    PARE_TRY(pare_tensor_alloc(a, q, err));
    if (known && g->n > 1 && !g->by.size && w->dim[g->axis] != g->n)
        return pare_fail(err, PARE_ECONFIG, "its weight has %lld channels and %lld scales",
                         (long long)w->dim[g->axis], (long long)g->n);
    if (known && integers(g, w, q) < 0)
        return 0;
    return only_values(&view, a, g, q, err);
}

/* ---- is it so? ----------------------------------------------------------------------------- */

int pare_qscale_probe(struct pare_layer *l, enum pare_quant_site site, const struct pare_qscale *g,
                      struct pare_err *err)
{
    const struct pare_quantizer *z = l->compression->quant->quantizer;
    float x[PROBES], y[PROBES];
    struct pare_tensor in = { .dtype = PARE_F32, .rank = 2, .dim = { 1, PROBES }, .data = x };
    struct pare_tensor out = in;
    double s = (double)g->scale[0], span = (double)(g->qmax - g->qmin);
    struct pare_call_scope turn;
    int rc;

    if (g->n > 1 || g->axis >= 0 || l->compression->quant->calibration)
        return 0;
    out.data = y;
    for (int i = 0; i < PROBES; i++) /* off the ties, a quarter of the range beyond both ends */
        x[i] = (float)(s * ((double)(g->qmin - g->zero[0]) - span / 4 + 0.3 +
                            rint(span * 1.5 * i / (PROBES - 1))));
    l->compression->quant->training = false;
    turn = pare_call_begin(l->compression, 0);
    rc = (site == PARE_INPUT ? z->input : z->output)(l, &in, &out, err);
    pare_call_end(l->compression, turn);
    for (int i = 0; i < PROBES && !rc; i++) {
        double q = rint((double)x[i] / s) + (double)g->zero[0];

        q = q < (double)g->qmin ? (double)g->qmin : q > (double)g->qmax ? (double)g->qmax : q;
        if (!(fabs((double)y[i] - s * (q - (double)g->zero[0])) <= 0.01 * s))
            return pare_fail(err, PARE_ECONFIG,
                             "quantizer %s makes %g of %g, which is not what its scale %g and zero "
                             "point %lld say; no file could hold it",
                             l->compression->algorithm[0]->name, (double)y[i], (double)x[i], s,
                             (long long)g->zero[0]);
    }
    return rc;
}
