/* clip_quantizer.c - plugin: a quantizer whose large outputs have zero gradients. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include <pare/plugin.h>

struct opts {
    double limit;
};
static const struct pare_opt opts[] = {
    PARE_FLOAT("limit", offsetof(struct opts, limit),
               "the gradient of outputs of a larger magnitude is 0", 1, 0, 1e6),
    PARE_OPT_END,
};

/* Scale and zero point from the smallest and the largest value. */
static void find_range(const struct pare_quant *q, const struct pare_tensor *x, float *scale,
                       float *zero)
{
    float lo = 0, hi = 0;

    for (int64_t i = 0; i < pare_numel(x); i++) {
        lo = fminf(lo, pare_f32(x)[i]);
        hi = fmaxf(hi, pare_f32(x)[i]);
    }
    pare_quant_fit(q, (double)lo, (double)hi, scale, zero);
}

/* In evaluation, inputs and outputs are quantized with the last range of training; values that
 * training never saw pass unchanged. */
static int quantize(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    struct pare_tensor *y, struct pare_err *err)
{
    const struct pare_quant *q = pare_layer_quant(l, site);
    struct pare_tensor *scale = pare_layer_scale(l, site, 1, err);
    struct pare_tensor *zero = scale ? pare_layer_zero_point(l, site, 1, err) : NULL;

    if (!zero)
        return err->code;
    if (q->per_channel)
        return pare_fail(err, PARE_ECONFIG, "clip has one scale for all channels");
    if (site == PARE_WEIGHT || pare_compression_is_training(pare_layer_compression(l)))
        find_range(q, x, pare_f32_mut(scale), pare_f32_mut(zero));
    if (*pare_f32(scale) > 0)
        pare_quant_apply(q, x, pare_f32(scale), pare_f32(zero), y);
    else
        memcpy(y->data, x->data, (size_t)pare_numel(x) * sizeof(float));
    return 0;
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    return quantize(l, PARE_WEIGHT, x, y, err);
}

static int input(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                 struct pare_err *err)
{
    return quantize(l, PARE_INPUT, x, y, err);
}

static int output(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    return quantize(l, PARE_OUTPUT, x, y, err);
}

/* x is the value before quantization, gy the gradient of the quantized value. */
static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(pare_layer_compression(l));

    (void)err;
    for (int64_t i = 0; i < pare_numel(x); i++) {
        bool stops = site == PARE_OUTPUT && fabs((double)pare_f32(x)[i]) > o->limit;

        pare_f32_mut(gx)[i] = stops ? 0 : pare_f32(gy)[i];
    }
    return 0;
}

static const struct pare_algorithm clip = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "clip",
    .doc = "Quantize by min-max ranges; gradients of large outputs are 0.",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .input = input,
            .output = output,
            .backward = backward,
            .min_bits = 2,
            .max_bits = 8,
        },
};

int pare_plugin_init(struct pare_registry *g, struct pare_err *err)
{
    return pare_add_quantizer(g, &clip, err);
}
