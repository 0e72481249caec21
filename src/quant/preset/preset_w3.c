/* preset_w3.c - preset w3: 3-bit weights rounded by gptq, 8-bit activations. */
#include "../presets.h"

const struct pare_preset pare_preset_w3 = {
    .name = "w3",
    .doc = "3-bit weights rounded by the data (--data) and 8-bit activations",
    .quantizer = "ptq",
    .keys = "quant_bits.weight=3 quant_bits.input=8 quant_bits.output=8 "
            "quant_dtype.weight=int quant_scheme.weight=per_channel_symmetric "
            "quant_dtype.input=uint quant_scheme.input=per_tensor_affine quant_dtype.output=uint "
            "quant_scheme.output=per_tensor_affine quant_types=weight,input",
    .outputs = "quant_bits=8 quant_dtype=uint quant_scheme=per_tensor_affine quant_types=output",
    .settings = "rounding=gptq",
    .folds = true,
};
