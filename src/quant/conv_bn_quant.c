/* conv_bn_quant.c - a convolution and the BatchNormalization behind it, quantized as one layer.
 *
 * In a file of integers the two are one convolution.  With s = gamma / sqrt(var + eps), one number
 * for each output channel, its weight and bias are
 *     W' = W s,     b' = beta + (b - mean) s,
 * so W' is what has to be rounded, not W.  But while the model trains, BatchNormalization works
 * with the moments of the batch, and its running ones must stay those of the convolution; those of
 * W' would be other numbers and, folded again and again, drift away.  So the model's weight is
 *     w = mask round(W s) / s,     s by the running variance,
 * and the graph stays as it is: its convolution computes conv(x, round(W s)) / s, as PyTorch's
 * ConvBn2d does, with the division where it costs nothing.  What is evaluated is then
 *     s conv(x, w) + beta - mean s = conv(x, mask round(W s)) + b',
 * what the file computes; the moments are those of the rounded convolution, which the file has.
 *
 * Going back, g = d loss / d w and h = mask g / s, from which the quantizer makes d loss / d (W s),
 * called p:
 *     d loss / d W = p s,     d loss / d gamma += sum of (p W - h w) / sqrt(var + eps);
 * the running variance is no parameter.  A channel with s = 0 has nothing to round: w = mask W.
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

#define LEAST 1e-30 /* a factor that is smaller is none: one divides by it */

enum { X, GAMMA, BETA, MEAN, VARIANCE, INPUTS };

/* ---- which ----------------------------------------------------------------------------------- */

/* The value of the setting fold_bn; false: the quantizer has none. */
static bool asked(const struct pare_quantizer *q, const void *conf)
{
    const struct pare_opt *o = q->base.opts ? pare_opt_find(q->base.opts, "fold_bn") : NULL;

    return o && o->type == PARE_OPT_BOOL &&
           *(const bool *)(const void *)((const char *)conf + o->offset);
}

bool pare_needs_bn_folding(const struct pare_quantizer *q, const char *settings)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    void *conf = a ? pare_alloc(a, q->base.opts_size + 1, 1) : NULL;
    struct pare_option_group part = { "quantizer", q->base.name, q->base.opts, conf };
    struct pare_given *g = NULL;
    struct pare_err err;
    int n = 0;
    bool yes = conf && q->base.opts &&
               (!settings || !pare_given_split(settings, a, &g, &n, &err)) &&
               !pare_option_group_fill(&part, g, n, a, &err) && asked(q, conf);

    pare_arena_free(a);
    return yes;
}

/* Is the normalization a layer of its own, whose numbers are rounded? */
static bool is_quantized(const struct pare_compression *r, const struct pare_node *norm)
{
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer *l = &r->layer[i];

        if (!strcmp(l->info.type, "BatchNormalization") &&
            !strcmp(l->info.node->out[0]->name, norm->out[0]->name) &&
            (l->quantized[PARE_WEIGHT] || l->quantized[PARE_INPUT]))
            return true;
    }
    return false;
}

int pare_conv_bn_find(struct pare_compression *r, struct pare_err *err)
{
    const struct pare_graph *g = r->model->graph;

    if (!asked(r->quantizer, r->conf[0]))
        return 0;
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *norm = g->node[i];

        if (!pare_norm_folds(g, norm) || is_quantized(r, norm))
            continue;
        for (int k = 0; k < r->n_layers; k++) {
            struct pare_layer *l = &r->layer[k];

            if (!l->quantized[PARE_WEIGHT] || l->weight != norm->in[X]->maker->in[1])
                continue;
            l->norm = norm;
            l->factor = pare_alloc(r->arena, 2 * (size_t)l->w.dim[0], sizeof(*l->factor));
            if (!l->factor)
                return pare_no_memory(err, "to fold normalizations");
            PARE_TRY(pare_mask_new(r, &l->w, &l->mask, err));
        }
    }
    return 0;
}

/* ---- factors --------------------------------------------------------------------------------- */

struct factors {
    int64_t n, each; /* channels, weights of each */
    const float *at[INPUTS];
    double *deviation; /* sqrt(var + eps) */
    double *s;         /* gamma / deviation; 0: the channel is left alone */
    int threads;
};

static void start(const struct pare_layer *l, struct factors *f)
{
    *f = (struct factors){ .n = l->weight->t.dim[0], .threads = l->quant[PARE_WEIGHT].threads };
    f->each = pare_numel(&l->weight->t) / f->n;
    if (f->n * f->each < 32768)
        f->threads = 1;
}

static int load(const struct pare_layer *l, struct pare_arena *a, struct factors *f,
                struct pare_err *err)
{
    double eps = pare_bn_epsilon(l->norm);

    start(l, f);
    f->s = pare_alloc(a, 2 * (size_t)f->n, sizeof(*f->s));
    if (!f->s)
        return pare_no_memory(err, "to fold normalizations");
    f->deviation = f->s + f->n;
    for (int k = GAMMA; k < INPUTS; k++) {
        struct pare_value v = *l->norm->in[k];

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
PARE_SIMD static void times(const float *x, float factor, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor;
}

static void multiply(const struct factors *f, const struct pare_tensor *w, struct pare_tensor *to)
{
#pragma omp parallel for num_threads(f->threads) if (f->threads > 1)
    for (int64_t c = 0; c < f->n; c++)
        times(pare_f32(w) + c * f->each, (float)f->s[c], pare_f32(to) + c * f->each, f->each);
}

int pare_conv_bn_weight(const struct pare_layer *l, const struct pare_tensor *w,
                        struct pare_arena *a, struct pare_tensor *product, struct pare_err *err)
{
    struct factors f;

    *product = *w;
    if (!l->norm)
        return 0;
    PARE_TRY(load(l, a, &f, err));
    PARE_TRY(pare_tensor_alloc(a, product, err));
    multiply(&f, w, product);
    return 0;
}

/* Scratch for a tensor like the weight; what is in it does not matter. */
static int room(struct pare_layer *l, struct pare_tensor *t, struct pare_err *err)
{
    *t = l->w;
    return pare_tensor_alloc(l->run->scratch, t, err);
}

/* ---- rounding -------------------------------------------------------------------------------- */

PARE_SIMD static void masked_times(const float *x, const uint8_t *mask, float factor, float *y,
                                   int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mask[i] ? x[i] * factor : 0;
}

/* Before quant_start_step nothing is rounded, and what passes, passes to the bit.  The factors are
 * kept for the way back: until then a batch changes the running variance. */
int pare_conv_bn_round(struct pare_layer *l, struct pare_err *err)
{
    struct pare_compression *r = l->run;
    struct pare_tensor product, out = l->weight->t;
    struct factors f;

    PARE_TRY(load(l, r->scratch, &f, err));
    memcpy(l->factor, f.s, 2 * (size_t)f.n * sizeof(*f.s));
    PARE_TRY(room(l, &product, err));
    multiply(&f, &l->w, &product);
    PARE_TRY(r->calibration ? pare_calibrated(l, PARE_WEIGHT, &product, &out, err)
                            : r->quantizer->weight(l, &product, &out, err));
#pragma omp parallel for num_threads(f.threads) if (f.threads > 1)
    for (int64_t c = 0; c < f.n; c++) {
        int64_t at = c * f.each;
        const uint8_t *mask = (const uint8_t *)l->mask.data + at;
        bool same = f.s[c] == 0 || !memcmp(pare_f32(&out) + at, pare_f32(&product) + at,
                                           (size_t)f.each * sizeof(float));

        masked_times(pare_f32(same ? &l->w : &out) + at, mask, same ? 1 : (float)(1 / f.s[c]),
                     pare_f32(&out) + at, f.each);
    }
    return 0;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* h = mask g / s, in place; the sum of h w. */
PARE_SIMD static double enter(float *g, const uint8_t *mask, const float *w, float factor,
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

/* g = p s; the sum of p w. */
PARE_SIMD static double leave(const float *p, const float *w, float factor, float *g, int64_t n)
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

/* From h to p; a quantizer without backward() leaves it as it is. */
static int ask(struct pare_layer *l, const struct factors *f, struct pare_tensor *p,
               struct pare_err *err)
{
    struct pare_compression *r = l->run;
    struct pare_tensor product;

    *p = l->grad;
    if (!r->quantizer->backward)
        return 0;
    PARE_TRY(room(l, &product, err));
    multiply(f, &l->w, &product);
    if (!(r->quantizer->base.flags & PARE_ANY_ORDER))
        PARE_TRY(room(l, p, err));
    return r->quantizer->backward(l, PARE_WEIGHT, &product, &l->grad, p, err);
}

int pare_conv_bn_grad(struct pare_layer *l, struct pare_err *err)
{
    struct pare_compression *r = l->run;
    int gamma = pare_trainer_param(r->trainer, l->norm->in[GAMMA]->name);
    float *g = pare_f32(&l->grad), *gg = gamma < 0 ? NULL : pare_f32(&r->trainer->grad[gamma]);
    struct pare_tensor p;
    struct factors f;
    double *hw;

    start(l, &f);
    f.s = l->factor;
    f.deviation = l->factor + f.n;
    hw = pare_alloc(r->scratch, (size_t)f.n, sizeof(*hw));
    if (!hw)
        return pare_no_memory(err, "to fold normalizations");
#pragma omp parallel for num_threads(f.threads) if (f.threads > 1)
    for (int64_t c = 0; c < f.n; c++) {
        int64_t at = c * f.each;

        hw[c] = enter(g + at, (const uint8_t *)l->mask.data + at, pare_f32(&l->weight->t) + at,
                      f.s[c] != 0 ? (float)(1 / f.s[c]) : 1, f.each);
    }
    PARE_TRY(ask(l, &f, &p, err));
#pragma omp parallel for num_threads(f.threads) if (f.threads > 1)
    for (int64_t c = 0; c < f.n; c++) {
        int64_t at = c * f.each;
        double s = f.s[c], pw;

        pw = leave(pare_f32(&p) + at, pare_f32(&l->w) + at, s != 0 ? (float)s : 1, g + at, f.each);
        if (gg && s != 0)
            gg[c] += (float)((pw - hw[c]) / f.deviation[c]);
    }
    return 0;
}

/* ---- what a file has ------------------------------------------------------------------------- */

int pare_conv_bn_view(const struct pare_layer *l, struct pare_arena *a, struct pare_layer *view,
                      struct pare_err *err)
{
    struct pare_value *w = pare_alloc(a, 1, sizeof(*w)), *b = pare_alloc(a, 1, sizeof(*b));
    struct factors f;

    *view = *l;
    if (!l->norm)
        return 0;
    if (!w || !b)
        return pare_no_memory(err, "to fold normalizations");
    PARE_TRY(load(l, a, &f, err));
    *w = *l->weight;
    PARE_TRY(pare_conv_bn_weight(l, &l->weight->t, a, &w->t, err));
    *b = l->bias ? *l->bias : (struct pare_value){ .name = "" };
    PARE_TRY(pare_tensor_new(a, &b->t, PARE_F32, 1, &f.n, err));
    for (int64_t c = 0; c < f.n; c++) {
        double old = l->bias ? (double)pare_f32(&l->bias->t)[c] : 0;

        pare_f32(&b->t)[c] = (float)((double)f.at[BETA][c] + (old - (double)f.at[MEAN][c]) *
                                                                 (double)f.at[GAMMA][c] /
                                                                 f.deviation[c]);
    }
    view->weight = w;
    view->bias = view->info.bias = b;
    view->norm = NULL;
    return 0;
}
