/* quantize_lsq_plus.c - LSQ+ quantizer, learned scales and zero points: Bhalgat et al., "LSQ+:
 * improving low-bit quantization through learnable offsets and better initialization", 2020.
 *
 *     y = S * (round(clamp(x / S + z, qmin, qmax)) - z),   S and the offset o learned, z = round(o)
 *
 * z is an integer, so that training sees what integer kernels compute; its gradient is passed
 * straight through to o.  Weights are initialized as in lsq, activations with the range of the
 * first batch.
 */
#include <math.h>

#include "lsq_grad.h"

static int start(struct pare_compression *r, struct pare_err *err)
{
    return pare_lsq_start(r, "offset", err);
}

/* "weight_offset": the zero points before they are rounded. */
static struct pare_tensor *offset_buffer(const struct pare_quant_point *p, struct pare_err *err)
{
    static const char *const names[PARE_QUANT_SITES] = { "weight_offset", "input_offset",
                                                         "output_offset" };

    return pare_layer_buffer(p->layer, names[p->site], PARE_F32, 1, &p->n, err);
}

static int init_scale(struct pare_quant_point *p, const struct pare_tensor *x, float *o,
                      struct pare_err *err)
{
    struct pare_lsq_state *s = pare_layer_state(p->layer);

    if (p->site == PARE_WEIGHT) {
        int64_t middle = p->q->has_sign ? 0 : (p->q->qmin + p->q->qmax + 1) / 2;

        for (int64_t c = 0; c < p->n; c++)
            p->zero[c] = (float)middle;
        PARE_TRY(pare_lsq_init(p, x, err));
    } else {
        PARE_TRY(pare_quant_point_fit(p, x, err));
        s->ready[p->site] = p->scale[0] > PARE_SCALE_MIN;
    }
    for (int64_t c = 0; c < p->n; c++)
        o[c] = p->zero[c];
    return 0;
}

static void round_offsets(const struct pare_quant_point *p, float *o)
{
    float lo = (float)p->q->qmin, hi = (float)p->q->qmax;

    for (int64_t c = 0; c < p->n; c++) {
        o[c] = o[c] >= lo ? o[c] <= hi ? o[c] : hi : lo;
        p->zero[c] = rintf(o[c]);
    }
}

static int round_to_scale(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, struct pare_tensor *y, struct pare_err *err)
{
    struct pare_tensor *o;
    struct pare_quant_point p;

    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    o = offset_buffer(&p, err);
    if (!o)
        return err->code;
    if (pare_lsq_begins(l, site))
        PARE_TRY(init_scale(&p, x, pare_f32_mut(o), err));
    round_offsets(&p, pare_f32_mut(o));
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
    static const char *const names[PARE_QUANT_SITES][2] = { { "weight_scale", "weight_offset" },
                                                            { "input_scale", "input_offset" },
                                                            { "output_scale", "output_offset" } };
    const struct pare_lsq_state *s = pare_layer_state(l);
    struct pare_lsq_grad g = { .gy = gy, .gx = gx };
    struct pare_tensor *ds = pare_layer_learn(l, names[site][0], err);
    struct pare_tensor *dz = ds ? pare_layer_learn(l, names[site][1], err) : NULL;
    struct pare_quant_point p;

    if (!dz)
        return err->code;
    PARE_TRY(pare_quant_point_open(l, site, x, &p, err));
    if (!s->ready[site] || pare_layer_waits(l)) {
        pare_copy(gy, gx);
        return 0;
    }
    g.ds = pare_f32_mut(ds);
    g.dz = pare_f32_mut(dz);
    return pare_lsq_backward(&p, x, &g, err);
}

/* Rounds the offsets of activations, so that zero points are up to date even if no batch follows
 * the last step. */
static int on_step(struct pare_compression *r, int64_t step, struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(r); i++)
        for (int site = PARE_INPUT; site < PARE_QUANT_SITES; site++) {
            struct pare_layer *l = pare_compression_layer(r, i);
            const struct pare_tensor none = { .rank = 0 };
            struct pare_tensor *o;
            struct pare_quant_point p;

            if (!pare_layer_quant(l, (enum pare_quant_site)site))
                continue;
            PARE_TRY(pare_quant_point_open(l, (enum pare_quant_site)site, &none, &p, err));
            o = offset_buffer(&p, err);
            if (!o)
                return err->code;
            round_offsets(&p, pare_f32_mut(o));
        }
    return pare_lsq_on_step(r, step, err);
}

const struct pare_algorithm pare_quantizer_lsq_plus = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "lsq_plus",
    .doc = "Learn scales and zero points with the weights.",
    .opts = pare_lsq_table,
    .opts_size = sizeof(struct pare_lsq_opts),
    .flags = PARE_LEARNS | PARE_ANY_ORDER | PARE_TRAINED,
    .layer_size = sizeof(struct pare_lsq_state),
    .start = start,
    .on_step = on_step,
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
