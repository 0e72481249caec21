/* preset_w4.c - preset w4: 4-bit weights of linear layers in groups, 8 bits elsewhere. */
#include "../presets.h"

const struct pare_preset pare_preset_w4 = {
    .name = "w4",
    .doc = "4-bit weights of linear layers in groups, 8-bit of convolutions; needs no data",
    .quantizer = "group",
    .keys = "quant_bits=4 quant_dtype=int quant_scheme=per_channel_symmetric quant_types=weight",
    .convs = "quant_bits=8 quant_dtype=int quant_scheme=per_channel_symmetric quant_types=weight",
};
