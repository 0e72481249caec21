/* preset_int8_weights.c - preset int8-weights: 8-bit weights with a scale per channel. */
#include "../presets.h"

const struct pare_preset pare_preset_int8_weights = {
    .name = "int8-weights",
    .doc = "8-bit weights, float activations: a quarter of the size; needs no data",
    .quantizer = "group",
    .keys = "quant_bits=8 quant_dtype=int quant_scheme=per_channel_symmetric quant_types=weight",
};
