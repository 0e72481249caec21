/* quantize_naive.c - naive quantizer: 8 bits, the largest weight is 127 steps, rounding toward
 * 0. */
#include <float.h>
#include <math.h>

#include "channel_rows.h"

/* The scale never decreases: it fits the largest weight ever seen.  Infinities are ignored, and
 * clamped to the largest. */
static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *err)
{
    struct pare_tensor *scale = pare_layer_scale(l, PARE_WEIGHT, 1, err);
    struct pare_tensor *zero = scale ? pare_layer_zero_point(l, PARE_WEIGHT, 1, err) : NULL;
    float largest = 0, *s;

    if (!zero)
        return err->code;
    s = pare_f32(scale);
    for (int64_t i = 0; i < pare_numel(x); i++) {
        float v = fabsf(pare_f32(x)[i]);

        largest = v > largest && v <= FLT_MAX ? v : largest;
    }
    *s = pare_scale_limit(largest / 127 > *s ? largest / 127 : *s);
    for (int64_t i = 0; i < pare_numel(x); i++) {
        float v = truncf(pare_f32(x)[i] / *s);

        pare_f32(y)[i] = (v > 127 ? 127 : v < -127 ? -127 : v) * *s;
    }
    return 0;
}

const struct pare_algorithm pare_quantizer_naive = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "naive",
    .doc = "Quantize weights to 8 bits by their largest magnitude.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .min_bits = 8,
            .max_bits = 8,
        },
};
