/* qscale.c - the integers of quantized values, from scales in buffers or recovered from the
 * values. */
#include "qscale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../op/quant/quant_family.h"
#include "../tensor/tensor.h"
#include "conv_bn_quant.h"

#define EXACT 1e-3   /* tolerance in steps: the rounding error of a float32 product */
#define TWICE 2.4e-7 /* tolerance relative to the value, after two roundings */
#define PROBES 64

/* ---- buffers ------------------------------------------------------------------------------- */

static const struct pare_tensor *point_buffer(const struct pare_layer *l, enum pare_quant_site site,
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

/* Sets the groups' scales; their integers may use all values of their bits. */
static int set_groups(const struct pare_layer *l, struct pare_qscale *g, struct pare_err *err)
{
    struct pare_group_fit f;

    PARE_TRY(pare_groups(l, pare_groups_kept(l), &g->by, err));
    if (g->by.n != g->n)
        return pare_fail(err, PARE_ECONFIG, "it has %lld scales for %lld quantization groups",
                         (long long)g->n, (long long)g->by.n);
    pare_group_range(&l->quant->site[PARE_WEIGHT], &f);
    g->qmin = f.qmin;
    g->qmax = f.qmax;
    g->axis = g->by.axis;
    return 0;
}

/* Fails for a zero point that is not an integer, for example 127.5 of symmetric unsigned values. */
static int check_scales(const struct pare_qscale *g, const float *zero, struct pare_err *err)
{
    int lo, hi;

    pare_quant_range(g->dtype, &lo, &hi);
    for (int64_t i = 0; i < g->n; i++) {
        double z = zero ? (double)zero[i] : 0;

        if (!(g->scale[i] > 0) || isinf(g->scale[i]))
            return pare_fail(err, PARE_ECONFIG,
                             "its scale is %g, expected a positive finite number",
                             (double)g->scale[i]);
        if (!(z >= lo && z <= hi) || z != rint(z))
            return pare_fail(err, PARE_ECONFIG,
                             "its zero point is %g, expected an integer from %d to %d", z, lo, hi);
        g->zero[i] = (int64_t)z;
    }
    return 0;
}

int pare_qscale_of(const struct pare_layer *l, enum pare_quant_site site, struct pare_arena *a,
                   struct pare_qscale *g, struct pare_err *err)
{
    const struct pare_tensor *scale = point_buffer(l, site, "scale");
    const struct pare_tensor *zero = point_buffer(l, site, "zero_point");

    *g = (struct pare_qscale){ .axis = -1 };
    set_type(l, site, g);
    if (!scale)
        return pare_fail(
            err, PARE_ECONFIG,
            "quantizer %s has not set its scale, so it cannot be exported as integers; calibrate "
            "or train it first",
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
    return check_scales(g, zero ? pare_f32(zero) : NULL, err);
}

bool pare_qscale_same(const struct pare_qscale *a, const struct pare_qscale *b)
{
    return a->dtype == b->dtype && a->n == b->n && a->axis == b->axis && a->qmin == b->qmin &&
           a->qmax == b->qmax && a->by.size == b->by.size &&
           !memcmp(a->scale, b->scale, (size_t)a->n * sizeof(float)) &&
           !memcmp(a->zero, b->zero, (size_t)a->n * sizeof(int64_t));
}

/* ---- weights ------------------------------------------------------------------------------- */

static void store_integer(struct pare_tensor *q, int64_t at, int64_t v)
{
    if (pare_dtype_size(q->dtype) == 1)
        ((uint8_t *)q->data)[at] = (uint8_t)v;
    else
        ((uint16_t *)q->data)[at] = (uint16_t)v;
}

/* q = (w - offset) / scale + zero.  Returns the index of the first w that is not scale * (q - zero)
 * + offset; -1: none. */
static int64_t row_integers(const struct pare_qscale *g, int64_t c, const float *w, int64_t n,
                            int64_t at, struct pare_tensor *q)
{
    double s = (double)g->scale[c], off = (double)g->offset;
    int lo, hi;

    pare_quant_range(g->dtype, &lo, &hi);
    for (int64_t i = 0; i < n; i++) {
        double v = (double)w[i] - off, k = rint(v / s);

        if (!(fabs(v - k * s) <= EXACT * s + TWICE * fabs(v)) || k + (double)g->zero[c] < lo ||
            k + (double)g->zero[c] > hi)
            return at + i;
        store_integer(q, at + i, (int64_t)k + g->zero[c]);
    }
    return -1;
}

/* The same for quantization groups: the scales from c on apply to one value each, or, along rows,
 * to by.size values each. */
static int64_t group_row_integers(const struct pare_qscale *g, int64_t c, const float *w, int64_t n,
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
        int64_t bad = group_row_integers(g, first, pare_f32(w) + at, w->dim[1], at, q);

        if (bad >= 0)
            return bad;
    }
    return -1;
}

static int64_t weight_integers(const struct pare_qscale *g, const struct pare_tensor *w,
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
            int64_t bad = row_integers(g, g->n > 1 ? c : 0, pare_f32(w) + at, size[2], at, q);

            if (bad >= 0)
                return bad;
        }
    return -1;
}

/* Recovers a scale from values of quantizers without one, for example signs, or DoReFa's odd
 * multiples of 1 / (2^bits - 1): the largest value is 1, 2, ... or 127 steps. */
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
        if (weight_integers(g, w, q) < 0)
            return true;
    }
    return false;
}

/* For a zero point z that is not an integer: scale * (q - ceil(z)) + scale * (ceil(z) - z). */
static bool with_offset(const struct pare_layer *l, struct pare_qscale *g, struct pare_tensor *q)
{
    const struct pare_tensor *scale = point_buffer(l, PARE_WEIGHT, "scale");
    const struct pare_tensor *zero = point_buffer(l, PARE_WEIGHT, "zero_point");
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
    return weight_integers(g, &l->weight->t, q) < 0;
}

static int recover_integers(const struct pare_layer *l, struct pare_arena *a, struct pare_qscale *g,
                            struct pare_tensor *q, struct pare_err *err)
{
    *g = (struct pare_qscale){ .dtype = PARE_I8, .qmin = -128, .qmax = 127, .axis = -1, .n = 1 };
    g->scale = pare_alloc(a, 1, sizeof(*g->scale));
    g->zero = pare_alloc(a, 1, sizeof(*g->zero));
    q->dtype = PARE_I8;
    if (!g->scale || !g->zero)
        return pare_no_memory(err, "for the integers of a layer");
    if (find_scale(&l->weight->t, g, q) || with_offset(l, g, q))
        return 0;
    return pare_fail(
        err, PARE_ECONFIG,
        "quantizer %s with %d bits: its weight is not a scale times integers, so it cannot be "
        "exported (or it is not quantized yet, see quant_start_step)",
        l->compression->algorithm[0]->name, l->quant->site[PARE_WEIGHT].bits);
}

/* The quantizer's scales with signed integers, where the config says unsigned but the values are
 * symmetric around 0, as those of naive. */
static bool as_signed(struct pare_qscale *g, const struct pare_tensor *w, struct pare_tensor *q)
{
    if (g->dtype != PARE_U8 || g->by.size)
        return false;
    for (int64_t i = 0; i < g->n; i++)
        if (g->zero[i])
            return false;
    g->dtype = q->dtype = PARE_I8;
    g->qmin = -127;
    g->qmax = 127;
    return weight_integers(g, w, q) < 0;
}

int pare_qweight(const struct pare_layer *l, struct pare_arena *a, struct pare_qscale *g,
                 struct pare_tensor *q, struct pare_err *err)
{
    const struct pare_tensor *w;
    struct pare_layer view;
    struct pare_qscale own;
    struct pare_err why;
    int rc = pare_qscale_of(l, PARE_WEIGHT, a, g, &why);
    bool known = !rc;

    if (rc == PARE_ENOMEM) {
        *err = why;
        return rc;
    }
    PARE_TRY(pare_conv_bn_view(l, a, &view, err));
    w = &view.weight->t;
    *q = *w;
    q->dtype = known ? g->dtype : PARE_I8;
    PARE_TRY(pare_tensor_alloc(a, q, err));
    if (known && g->n > 1 && !g->by.size && w->dim[g->axis] != g->n)
        return pare_fail(err, PARE_ECONFIG, "its weight has %lld channels and %lld scales",
                         (long long)w->dim[g->axis], (long long)g->n);
    if (known && weight_integers(g, w, q) < 0)
        return 0;
    own = *g;
    rc = recover_integers(&view, a, g, q, err);
    if (rc == PARE_ECONFIG && known && as_signed(&own, w, q)) {
        *g = own;
        return 0;
    }
    return rc;
}

/* ---- verifying ------------------------------------------------------------------------------- */

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
    for (int i = 0; i < PROBES; i++) /* between ties, a quarter of the range beyond both ends */
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
            return pare_fail(
                err, PARE_ECONFIG,
                "quantizer %s maps %g to %g, which its scale %g and zero point %lld do not give, "
                "so it cannot be exported as integers",
                l->compression->algorithm[0]->name, (double)y[i], (double)x[i], s,
                (long long)g->zero[0]);
    }
    return rc;
}
