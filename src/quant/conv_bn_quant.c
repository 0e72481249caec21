/* conv_bn_quant.c - quantize a convolution and the BatchNormalization after it as one layer.
 *
 * The exported int8 model has one convolution for the two.  With s = gamma / sqrt(var + eps), one
 * factor for each output channel, its weight and bias are
 *     W' = W s,     b' = beta + (b - mean) s,
 * so W' is to be quantized, not W.  In training, however, BatchNormalization uses the moments of
 * the batch, and its running moments must stay those of the unfolded convolution; folding them
 * repeatedly would let them drift.  So the effective weight is
 *     w = mask round(W s) / s,     s from the running variance,
 * and the graph keeps both nodes: the convolution computes conv(x, round(W s)) / s, like PyTorch's
 * ConvBn2d, with the division folded into the weight.  Evaluation then computes
 *     s conv(x, w) + beta - mean s = conv(x, mask round(W s)) + b',
 * the same as the exported model, and the moments are those of the quantized convolution.
 *
 * Backward pass: g = d loss / d w and h = mask g / s; the quantizer turns h into
 * p = d loss / d (W s), and
 *     d loss / d W = p s,     d loss / d gamma += sum of (p W - h w) / sqrt(var + eps);
 * the running variance is not a parameter.  A channel with s = 0 is not quantized: w = mask W.
 */
#include "conv_bn_quant.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/simd.h"
#include "../onnx/fold_norm.h"
#include "../op/nn/norm.h"
#include "../tensor/tensor.h"
#include "../base/option_groups.h"
#include "calibration_file.h"
#include "channel_rows.h"

#define LEAST 1e-30 /* a smaller factor counts as 0, because it is divided by */

enum { X, GAMMA, BETA, MEAN, VARIANCE, INPUTS };

/* ---- which layers ---------------------------------------------------------------------------- */

/* The value of the setting fold_bn; false if the quantizer has no such setting. */
static bool wants_folding(const struct pare_algorithm *q, const void *conf)
{
    const struct pare_opt *o = q->opts ? pare_opt_find(q->opts, "fold_bn") : NULL;

    return o && o->type == PARE_OPT_BOOL &&
           *(const bool *)(const void *)((const char *)conf + o->offset);
}

bool pare_needs_bn_folding(const struct pare_algorithm *q, const struct pare_given *g, int n)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    void *conf = a ? pare_alloc(a, q->opts_size + 1, 1) : NULL;
    struct pare_option_group part = { "quantizer", q->name, q->opts, conf };
    struct pare_err err;
    bool yes = conf && q->opts && !pare_option_group_fill(&part, g, n, a, &err) &&
               wants_folding(q, conf);

    pare_arena_free(a);
    return yes;
}

/* Is the normalization itself a wrapped layer with quantized weight or input? */
static bool is_quantized(const struct pare_compression *r, const struct pare_node *norm)
{
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer *l = &r->layer[i];

        if (pare_node_is(l->info.node, &pare_op_batch_normalization) &&
            !strcmp(l->info.node->out[0]->name, norm->out[0]->name) &&
            (l->quant->quantized[PARE_WEIGHT] || l->quant->quantized[PARE_INPUT]))
            return true;
    }
    return false;
}

int pare_conv_bn_find(struct pare_compression *r, struct pare_err *err)
{
    const struct pare_graph *g = r->model->graph;

    if (!wants_folding(r->algorithm[0], r->conf[0]))
        return 0;
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *norm = g->node[i];

        if (!pare_norm_folds(g, norm) || is_quantized(r, norm))
            continue;
        for (int k = 0; k < r->n_layers; k++) {
            struct pare_layer *l = &r->layer[k];

            if (!l->quant->quantized[PARE_WEIGHT] || l->weight != norm->in[X]->maker->in[1])
                continue;
            l->quant->norm = norm;
            l->quant->factor = pare_alloc(r->arena, 2 * (size_t)l->w.dim[0],
                                          sizeof(*l->quant->factor));
            if (!l->quant->factor)
                return pare_no_memory(err, "to fold normalizations");
            PARE_TRY(pare_mask_new(r, &l->w, &l->mask, err));
        }
    }
    return 0;
}

/* ---- factors --------------------------------------------------------------------------------- */

struct factors {
    int64_t n, each; /* channels, weights per channel */
    const float *at[INPUTS];
    double *deviation; /* sqrt(var + eps) */
    double *s;         /* gamma / deviation; 0: the channel is not quantized */
    int threads;
};

static void init_factors(const struct pare_layer *l, struct factors *f)
{
    *f = (struct factors){ .n = l->weight->t.dim[0],
                           .threads = l->quant->site[PARE_WEIGHT].threads };
    f->each = pare_numel(&l->weight->t) / f->n;
    if (f->n * f->each < 32768)
        f->threads = 1;
}

static int load_factors(const struct pare_layer *l, struct pare_arena *a, struct factors *f,
                        struct pare_err *err)
{
    double eps = pare_bn_epsilon(l->quant->norm);

    init_factors(l, f);
    f->s = pare_alloc(a, 2 * (size_t)f->n, sizeof(*f->s));
    if (!f->s)
        return pare_no_memory(err, "to fold normalizations");
    f->deviation = f->s + f->n;
    for (int k = GAMMA; k < INPUTS; k++) {
        struct pare_value v = *l->quant->norm->in[k];

        PARE_TRY(pare_value_load(a, &v, err));
        f->at[k] = pare_f32(&v.t);
    }
    for (int64_t c = 0; c < f->n; c++) {
        double s;

        f->deviation[c] = sqrt((double)f->at[VARIANCE][c] + eps);
        s = (double)f->at[GAMMA][c] / f->deviation[c];
        f->s[c] = fabs(s) >= LEAST && fabs(s) <= 1 / LEAST ? s : 0;
    }
    return 0;
}

/* y = x factor. */
PARE_SIMD static void scale_row(const float *x, float factor, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor;
}

static void scale_channels(const struct factors *f, const struct pare_tensor *w,
                           struct pare_tensor *to)
{
#pragma omp parallel for num_threads(f->threads) if (f->threads > 1)
    for (int64_t c = 0; c < f->n; c++)
        scale_row(pare_f32_mut(w) + c * f->each, (float)f->s[c], pare_f32_mut(to) + c * f->each,
                  f->each);
}

int pare_conv_bn_weight(const struct pare_layer *l, const struct pare_tensor *w,
                        struct pare_arena *a, struct pare_tensor *product, struct pare_err *err)
{
    struct factors f;

    *product = *w;
    if (!l->quant->norm)
        return 0;
    PARE_TRY(load_factors(l, a, &f, err));
    PARE_TRY(pare_tensor_alloc(a, product, err));
    scale_channels(&f, w, product);
    return 0;
}

/* An uninitialized scratch tensor of the weight's shape. */
static int scratch_like_weight(struct pare_layer *l, struct pare_tensor *t, struct pare_err *err)
{
    *t = l->w;
    return pare_tensor_alloc(l->compression->scratch, t, err);
}

/* ---- quantizing ------------------------------------------------------------------------------ */

PARE_SIMD static void scale_masked_row(const float *x, const uint8_t *mask, float factor, float *y,
                                       int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mask[i] ? x[i] * factor : 0;
}

/* Before quant_start_step nothing is quantized, and the weight passes bit for bit.  The factors are
 * kept for the backward pass: by then a batch has changed the running variance. */
int pare_conv_bn_round(struct pare_layer *l, struct pare_err *err)
{
    struct pare_compression *r = l->compression;
    struct pare_tensor product, out = l->weight->t;
    struct factors f;

    PARE_TRY(load_factors(l, r->scratch, &f, err));
    memcpy(l->quant->factor, f.s, 2 * (size_t)f.n * sizeof(*f.s));
    PARE_TRY(scratch_like_weight(l, &product, err));
    scale_channels(&f, &l->w, &product);
    PARE_TRY(r->quant->calibration ? pare_calibrated(l, PARE_WEIGHT, &product, &out, err)
                                   : r->quant->quantizer->weight(l, &product, &out, err));
#pragma omp parallel for num_threads(f.threads) if (f.threads > 1)
    for (int64_t c = 0; c < f.n; c++) {
        int64_t at = c * f.each;
        const uint8_t *mask = (const uint8_t *)l->mask.data + at;
        bool same = f.s[c] == 0 || !memcmp(pare_f32(&out) + at, pare_f32(&product) + at,
                                           (size_t)f.each * sizeof(float));

        scale_masked_row(pare_f32(same ? &l->w : &out) + at, mask, same ? 1 : (float)(1 / f.s[c]),
                         pare_f32_mut(&out) + at, f.each);
    }
    return 0;
}

/* ---- backward pass --------------------------------------------------------------------------- */

/* h = mask g / s, in place; returns the sum of h w. */
PARE_SIMD static double grad_to_product(float *g, const uint8_t *mask, const float *w, float factor,
                                        int64_t n)
{
    double sum = 0;

    for (int64_t at = 0; at < n; at += 256) {
        int64_t end = at + 256 < n ? at + 256 : n;
        float part = 0;

#pragma omp simd reduction(+ : part)
        for (int64_t i = at; i < end; i++) {
            g[i] = mask[i] ? g[i] * factor : 0;
            part += g[i] * w[i];
        }
        sum += (double)part;
    }
    return sum;
}

/* g = p s; returns the sum of p w. */
PARE_SIMD static double grad_to_weight(const float *p, const float *w, float factor, float *g,
                                       int64_t n)
{
    double sum = 0;

    for (int64_t at = 0; at < n; at += 256) {
        int64_t end = at + 256 < n ? at + 256 : n;
        float part = 0;

#pragma omp simd reduction(+ : part)
        for (int64_t i = at; i < end; i++) {
            part += p[i] * w[i];
            g[i] = p[i] * factor;
        }
        sum += (double)part;
    }
    return sum;
}

/* From h to p; without backward() p is h. */
static int quantizer_grad(struct pare_layer *l, const struct factors *f, struct pare_tensor *p,
                          struct pare_err *err)
{
    struct pare_compression *r = l->compression;
    struct pare_tensor product;

    *p = l->grad;
    if (!r->quant->quantizer->backward)
        return 0;
    PARE_TRY(scratch_like_weight(l, &product, err));
    scale_channels(f, &l->w, &product);
    if (!(r->algorithm[0]->flags & PARE_ANY_ORDER))
        PARE_TRY(scratch_like_weight(l, p, err));
    return r->quant->quantizer->backward(l, PARE_WEIGHT, &product, &l->grad, p, err);
}

int pare_conv_bn_grad(struct pare_layer *l, struct pare_err *err)
{
    struct pare_compression *r = l->compression;
    int gamma = pare_trainer_param(r->trainer, l->quant->norm->in[GAMMA]->name);
    float *g = pare_f32_mut(&l->grad),
          *gg = gamma < 0 ? NULL : pare_f32_mut(&r->trainer->grad[gamma]);
    struct pare_tensor p;
    struct factors f;
    double *hw;

    init_factors(l, &f);
    f.s = l->quant->factor;
    f.deviation = l->quant->factor + f.n;
    hw = pare_alloc(r->scratch, (size_t)f.n, sizeof(*hw));
    if (!hw)
        return pare_no_memory(err, "to fold normalizations");
#pragma omp parallel for num_threads(f.threads) if (f.threads > 1)
    for (int64_t c = 0; c < f.n; c++) {
        int64_t at = c * f.each;

        hw[c] = grad_to_product(g + at, (const uint8_t *)l->mask.data + at,
                                pare_f32(&l->weight->t) + at, f.s[c] != 0 ? (float)(1 / f.s[c]) : 1,
                                f.each);
    }
    PARE_TRY(quantizer_grad(l, &f, &p, err));
#pragma omp parallel for num_threads(f.threads) if (f.threads > 1)
    for (int64_t c = 0; c < f.n; c++) {
        int64_t at = c * f.each;
        double s = f.s[c], pw;

        pw = grad_to_weight(pare_f32(&p) + at, pare_f32(&l->w) + at, s != 0 ? (float)s : 1, g + at,
                            f.each);
        if (gg && s != 0)
            gg[c] += (float)((pw - hw[c]) / f.deviation[c]);
    }
    return 0;
}

/* ---- export ------------------------------------------------------------------------- */

int pare_conv_bn_view(const struct pare_layer *l, struct pare_arena *a, struct pare_layer *view,
                      struct pare_err *err)
{
    struct pare_value *w = pare_alloc(a, 1, sizeof(*w)), *b = pare_alloc(a, 1, sizeof(*b));
    struct factors f;

    *view = *l;
    if (!l->quant->norm)
        return 0;
    view->quant = pare_alloc(a, 1, sizeof(*view->quant));
    if (!w || !b || !view->quant)
        return pare_no_memory(err, "to fold normalizations");
    *view->quant = *l->quant;
    PARE_TRY(load_factors(l, a, &f, err));
    *w = *l->weight;
    PARE_TRY(pare_conv_bn_weight(l, &l->weight->t, a, &w->t, err));
    *b = l->bias ? *l->bias : (struct pare_value){ .name = "" };
    PARE_TRY(pare_tensor_new(a, &b->t, PARE_F32, 1, &f.n, err));
    for (int64_t c = 0; c < f.n; c++) {
        double old = l->bias ? (double)pare_f32(&l->bias->t)[c] : 0;

        pare_f32_mut(&b->t)[c] = (float)((double)f.at[BETA][c] + (old - (double)f.at[MEAN][c]) *
                                                                     (double)f.at[GAMMA][c] /
                                                                     f.deviation[c]);
    }
    view->weight = w;
    view->bias = view->info.bias = b;
    view->quant->norm = NULL;
    return 0;
}
