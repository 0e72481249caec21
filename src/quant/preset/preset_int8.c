/* preset_int8.c - preset int8: 8-bit weights, inputs and outputs; scales from calibration data. */
#include "../presets.h"

const struct pare_preset pare_preset_int8 = {
    .name = "int8",
    .doc = "8-bit weights and activations, scales from calibration data (--data); runs fastest",
    .quantizer = "ptq",
    .keys = "quant_bits=8 quant_dtype.weight=int quant_scheme.weight=per_channel_symmetric "
            "quant_dtype.input=uint quant_scheme.input=per_tensor_affine quant_dtype.output=uint "
            "quant_scheme.output=per_tensor_affine quant_types=weight,input",
    .outputs = "quant_bits=8 quant_dtype=uint quant_scheme=per_tensor_affine quant_types=output",
    .folds = true,
};
