/* quantize_pact.c - PACT quantizer, learned clipping of activations: Choi et al., "PACT:
 * parameterized clipping activation for quantized neural networks", 2018.
 *
 *     y = x clamped to [0, alpha], rounded to 2^bits - 1 steps
 *     d loss / d x = d loss / d y where 0 <= x < alpha, else 0
 *     d loss / d alpha = sum of d loss / d y where x >= alpha
 *
 * For outputs of a ReLU: negative values become 0.  Weights are quantized by their min-max range.
 */
#include <stddef.h>

#include "../base/simd.h"
#include "channel_rows.h"

struct opts {
    double alpha;
    bool fold_bn;
};

struct state {
    bool ready[PARE_QUANT_SITES];
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_FLOAT("alpha", offsetof(struct opts, alpha),
               "initial clipping value (0: the maximum of the first batch)", 0, 0, 1e6),
    PARE_FOLD_BN(opts),
    PARE_OPT_END
};
/* clang-format on */

static const char *const names[PARE_QUANT_SITES] = { "", "input_alpha", "output_alpha" };

static struct pare_tensor *alpha_of(struct pare_layer *l, enum pare_quant_site site,
                                    struct pare_err *err)
{
    static const int64_t one = 1;

    return pare_layer_buffer(l, names[site], PARE_F32, 1, &one, err);
}

static int start(struct pare_compression *r, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);

    for (int i = 0; i < pare_compression_layers(r); i++)
        for (int site = PARE_INPUT; site < PARE_QUANT_SITES; site++) {
            struct pare_layer *l = pare_compression_layer(r, i);
            struct state *s = pare_layer_state(l);
            struct pare_tensor *a;

            if (!pare_layer_quant(l, (enum pare_quant_site)site))
                continue;
            a = alpha_of(l, (enum pare_quant_site)site, err);
            if (!a || !pare_layer_learn(l, names[site], err))
                return err->code;
            *pare_f32_mut(a) = (float)o->alpha;
            s->ready[site] = o->alpha > 0;
        }
    return 0;
}

/* Maps 0..alpha to qmin..qmax. */
static void set_scale(const struct pare_quant_point *p, float *alpha)
{
    float steps = (float)(p->q->qmax - p->q->qmin);

    *p->scale = pare_scale_limit(*alpha / steps);
    if (*p->scale != *alpha / steps)
        *alpha = *p->scale * steps;
    *p->zero = (float)p->q->qmin;
}

static int activation(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                      struct pare_tensor *y, struct pare_err *err)
{
    struct pare_tensor *alpha = alpha_of(l, site, err);
    struct state *s = pare_layer_state(l);
    struct pare_quant_point p;
    float lo, hi;

    if (!alpha)
        return err->code;
    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    PARE_TRY(pare_quant_point_whole(&p, "pact", err));
    if (!s->ready[site] && pare_compression_is_training(pare_layer_compression(l)) &&
        !pare_layer_waits(l)) {
        PARE_TRY(pare_quant_point_range(&p, x, &lo, &hi, err));
        *pare_f32_mut(alpha) = hi;
        s->ready[site] = hi > 0;
        set_scale(&p, pare_f32_mut(alpha)); /* the smallest scale if no positive value was seen */
    }
    if (s->ready[site])
        set_scale(&p, pare_f32_mut(alpha));
    pare_quant_point_round(&p, *p.scale > 0, x, y);
    return 0;
}

PARE_ACTIVATIONS(activation)

/* ---- backward pass --------------------------------------------------------------------------- */

#define BLOCK 256

/* Returns the gradient of alpha. */
PARE_SIMD static double pact_row(const float *x, const float *gy, float *gx, int64_t n, float alpha)
{
    double sum = 0;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        float part = 0;

#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < m; i++) {
            float v = x[at + i], g = gy[at + i];

            gx[at + i] = ((v >= 0) & (v < alpha)) ? g : 0;
            part += v >= alpha ? g : 0;
        }
        sum += (double)part;
    }
    return sum;
}

struct work {
    const float *x, *gy;
    float *gx, alpha;
    double *sum; /* per thread */
};

static void pact_fn(const struct pare_row *row, void *user)
{
    const struct work *w = user;

    w->sum[row->thread] += pact_row(w->x + row->at, w->gy + row->at, w->gx + row->at, row->n,
                                    w->alpha);
}

static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    const struct pare_quant *q = pare_layer_quant(l, site);
    const struct state *s = pare_layer_state(l);
    struct work w = { .x = pare_f32(x), .gy = pare_f32(gy), .gx = pare_f32_mut(gx) };
    struct pare_tensor *alpha, *da;
    int threads = pare_rows_threads(q, x);

    if (site == PARE_WEIGHT || !s->ready[site] || pare_layer_waits(l)) {
        pare_copy(gy, gx);
        return 0;
    }
    alpha = alpha_of(l, site, err);
    da = alpha ? pare_layer_learn(l, names[site], err) : NULL;
    if (!da)
        return err->code;
    w.alpha = *pare_f32(alpha);
    w.sum = pare_alloc(pare_compression_scratch(pare_layer_compression(l)), (size_t)threads,
                       sizeof(*w.sum));
    if (!w.sum)
        return pare_no_memory(err, "for the gradient of alpha");
    pare_rows_each(q, x, pact_fn, &w);
    for (int i = 0; i < threads; i++)
        *pare_f32_mut(da) += (float)w.sum[i];
    return 0;
}

/* Updates the scales, so that they are up to date even if no batch follows the last step. */
static int on_step(struct pare_compression *r, int64_t step, struct pare_err *err)
{
    (void)step;
    for (int i = 0; i < pare_compression_layers(r); i++)
        for (int site = PARE_INPUT; site < PARE_QUANT_SITES; site++) {
            struct pare_layer *l = pare_compression_layer(r, i);
            const struct state *s = pare_layer_state(l);
            const struct pare_tensor none = { .rank = 0 };
            struct pare_tensor *alpha;
            struct pare_quant_point p;

            if (!pare_layer_quant(l, (enum pare_quant_site)site) || !s->ready[site])
                continue;
            PARE_TRY(pare_quant_point_open(l, (enum pare_quant_site)site, &none, &p, err));
            alpha = alpha_of(l, (enum pare_quant_site)site, err);
            if (!alpha)
                return err->code;
            set_scale(&p, pare_f32_mut(alpha));
        }
    return 0;
}

const struct pare_algorithm pare_quantizer_pact = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "pact",
    .doc = "Quantize activations from 0 to a learned clipping value.",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .flags = PARE_LEARNS | PARE_ANY_ORDER | PARE_TRAINED,
    .layer_size = sizeof(struct state),
    .start = start,
    .on_step = on_step,
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = pare_weight_by_range,
            .input = input,
            .output = output,
            .backward = backward,
        },
};
