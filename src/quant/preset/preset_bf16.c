/* preset_bf16.c - preset bf16: weights in bfloat16; runtimes on CPUs lack most bfloat16 kernels, so
 * nodes compute in float32 unless the user chooses otherwise. */
#include "../presets.h"

const struct pare_preset pare_preset_bf16 = {
    .name = "bf16",
    .doc = "bfloat16: half of the size, the range of float32",
    .half = PARE_BF16,
};
