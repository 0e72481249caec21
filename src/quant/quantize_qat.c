/* quantize_qat.c - QAT quantizer, quantization-aware training: Jacob et al., "Quantization and
 * training of neural networks for efficient integer-arithmetic-only inference", 2018.
 *
 *     weights:           current min-max range of the weights
 *     inputs, outputs:   range = decay * range + (1 - decay) * range of this batch,
 *                        while training; initially that of the first batch
 *     d loss / d x = d loss / d y where x is within the range, else 0
 *
 * A convolution is quantized together with the following BatchNormalization (conv_bn_quant.c).
 *
 * Ranges are tracked from the first step on; quantization begins at quant_start_step.
 */
#include <stddef.h>

#include "channel_rows.h"

struct opts {
    double ema_decay;
    bool fold_bn;
};

struct state {
    bool seen[PARE_QUANT_SITES];
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_FLOAT("ema_decay", offsetof(struct opts, ema_decay),
               "weight of the old range at each step", 0.99, 0, 1),
    PARE_FOLD_BN(opts),
    PARE_OPT_END
};
/* clang-format on */

static int update_range(struct pare_quant_point *p, const struct pare_tensor *x,
                        struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(p->layer));
    struct state *s = pare_layer_state(p->layer);
    struct pare_arena *a = pare_compression_scratch(pare_layer_compression(p->layer));
    struct pare_tensor *tmin = pare_quant_point_buffer(p, "tracked_min", err);
    struct pare_tensor *tmax = tmin ? pare_quant_point_buffer(p, "tracked_max", err) : NULL;
    float keep = s->seen[p->site] ? (float)o->ema_decay : 0, *lo, *hi;

    if (!tmax)
        return err->code;
    lo = pare_alloc(a, 2 * (size_t)p->n, sizeof(*lo));
    if (!lo)
        return pare_no_memory(err, "for ranges");
    hi = lo + p->n;
    PARE_TRY(pare_quant_point_range(p, x, lo, hi, err));
    for (int64_t c = 0; c < p->n; c++) {
        float *a0 = pare_f32_mut(tmin) + c, *a1 = pare_f32_mut(tmax) + c;

        *a0 = keep * *a0 + (1 - keep) * lo[c];
        *a1 = keep * *a1 + (1 - keep) * hi[c];
        pare_quant_fit(p->q, (double)*a0, (double)*a1, &p->scale[c], &p->zero[c]);
    }
    s->seen[p->site] = true;
    return 0;
}

static int activation(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                      struct pare_tensor *y, struct pare_err *err)
{
    const struct state *s = pare_layer_state(l);
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    if (pare_compression_is_training(pare_layer_compression(l)))
        PARE_TRY(update_range(&p, x, err));
    pare_quant_point_round(&p, s->seen[site], x, y);
    return 0;
}

PARE_ACTIVATIONS(activation)

static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    if (pare_layer_waits(l))
        pare_copy(gy, gx);
    else
        pare_quant_clip_grad(p.q, x, p.scale, p.zero, gy, gx);
    return 0;
}

const struct pare_algorithm pare_quantizer_qat = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "qat",
    .doc = "Train with quantized values; ranges of activations are moving averages.",
    .flags = PARE_ANY_ORDER | PARE_TRAINED,
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .layer_size = sizeof(struct state),
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = pare_weight_by_range,
            .input = input,
            .output = output,
            .backward = backward,
        },
};
