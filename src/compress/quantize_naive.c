/* quantize_naive.c - 8 bits, the largest weight is 127 steps; rounded toward 0. */
#include <pare/plugin.h>

/* The scale never shrinks: it is what the largest weight ever seen needs. */
static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    struct pare_tensor *scale = pare_layer_scale(l, PARE_WEIGHT, 1, err);
    struct pare_tensor *zero = pare_layer_zero_point(l, PARE_WEIGHT, 1, err);
    float largest = 0, *s;

    if (!scale || !zero)
        return err->code;
    s = pare_f32(scale);
    for (int64_t i = 0; i < pare_numel(x); i++) {
        float v = pare_f32(x)[i] < 0 ? -pare_f32(x)[i] : pare_f32(x)[i];

        largest = v > largest ? v : largest;
    }
    if (largest / 127 > *s)
        *s = largest / 127;
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32(y)[i] = *s > 0 ? (float)(int)(pare_f32(x)[i] / *s) * *s : 0;
    return 0;
}

const struct pare_quantizer pare_quantizer_naive = {
    .base = {
        .abi = PARE_ABI,
        .name = "naive",
        .doc = "Weights in 8 bits by their largest magnitude.",
    },
    .weight = weight,
    .min_bits = 8,
    .max_bits = 8,
};
