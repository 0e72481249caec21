/* quantize_lsq.c - LSQ quantizer, learned scales: Esser et al., "Learned step size quantization",
 * 2020.
 *
 *     y = S * (round(clamp(x / S + z, qmin, qmax)) - z),   S learned
 *
 * The zero point is fixed: 0 if signed.  If unsigned it is the middle of the range, so that 8 bits
 * hold -128 to 127; for inputs and outputs whose first batch has no negative values it is 0.  For
 * the initial S and its gradient see lsq_grad.h.
 */
#include "lsq_grad.h"

static int start(struct pare_compression *r, struct pare_err *err)
{
    return pare_lsq_start(r, NULL, err);
}

static int init_scale(struct pare_quant_point *p, const struct pare_tensor *x, struct pare_err *err)
{
    int64_t middle = p->q->has_sign ? 0 : (p->q->qmin + p->q->qmax + 1) / 2;
    float lo = -1, hi;

    if (p->site != PARE_WEIGHT)
        PARE_TRY(pare_quant_point_range(p, x, &lo, &hi, err));
    for (int64_t c = 0; c < p->n; c++)
        p->zero[c] = lo < 0 ? (float)middle : 0;
    return pare_lsq_init(p, x, err);
}

static int round_to_scale(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err)
{
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    if (pare_lsq_begins(l, site))
        PARE_TRY(init_scale(&p, x, err));
    pare_quant_point_round(&p, p.scale[0] > 0, x,
                           y); /* the smallest scale if only zeros were seen */
    return 0;
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    return round_to_scale(l, PARE_WEIGHT, x, y, err);
}

PARE_ACTIVATIONS(round_to_scale)

static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    static const char *const names[PARE_QUANT_SITES] = { "weight_scale", "input_scale",
                                                         "output_scale" };
    const struct pare_lsq_state *s = pare_layer_state(l);
    struct pare_lsq_grad g = { .gy = gy, .gx = gx };
    struct pare_tensor *ds = pare_layer_learn(l, names[site], err);
    struct pare_quant_point p;

    if (!ds)
        return err->code;
    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    if (!s->ready[site] || pare_layer_waits(l)) {
        pare_copy(gy, gx);
        return 0;
    }
    g.ds = pare_f32_mut(ds);
    return pare_lsq_backward(&p, x, &g, err);
}

const struct pare_algorithm pare_quantizer_lsq = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "lsq",
    .doc = "Learn scales with the weights; zero points are fixed.",
    .opts = pare_lsq_table,
    .opts_size = sizeof(struct pare_lsq_opts),
    .flags = PARE_LEARNS | PARE_ANY_ORDER | PARE_TRAINED,
    .layer_size = sizeof(struct pare_lsq_state),
    .start = start,
    .on_step = pare_lsq_on_step,
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .input = input,
            .output = output,
            .backward = backward,
            .min_bits = 2,
            .max_bits = 16,
        },
};
