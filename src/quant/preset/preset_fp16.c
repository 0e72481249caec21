/* preset_fp16.c - preset fp16: weights and computation in float16 (half precision). */
#include "../presets.h"

const struct pare_preset pare_preset_fp16 = {
    .name = "fp16",
    .doc = "half precision (float16): half of the size",
    .half = PARE_F16,
    .half_compute = true,
};
