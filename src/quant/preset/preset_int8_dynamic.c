/* preset_int8_dynamic.c - preset int8-dynamic: 8-bit weights, inputs quantized at run time by their
 * own range, so that no data is needed. */
#include "../presets.h"

const struct pare_preset pare_preset_int8_dynamic = {
    .name = "int8-dynamic",
    .doc = "8-bit weights, activations quantized at run time; needs no data",
    .quantizer = "group",
    .keys = "quant_bits=8 quant_dtype=int quant_scheme=per_channel_symmetric quant_types=weight",
    .folds = true,
    .dynamic = true,
};
