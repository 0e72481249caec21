/* preset_w4a4.c - preset w4a4: 4-bit weights rounded by gptq, 4-bit inputs. */
#include "../presets.h"

const struct pare_preset pare_preset_w4a4 = {
    .name = "w4a4",
    .doc = "4-bit weights rounded by the data (--data) and 4-bit inputs; 8 bits in the first and "
           "last layer",
    .quantizer = "ptq",
    .keys = "quant_bits.weight=4 quant_bits.input=4 quant_bits.output=8 "
            "quant_dtype.weight=int quant_scheme.weight=per_channel_symmetric "
            "quant_dtype.input=uint quant_scheme.input=per_tensor_affine quant_dtype.output=uint "
            "quant_scheme.output=per_tensor_affine quant_types=weight,input",
    .ends = "quant_bits.weight=8 quant_bits.input=8 "
            "quant_dtype.weight=int quant_scheme.weight=per_channel_symmetric "
            "quant_dtype.input=uint quant_scheme.input=per_tensor_affine quant_dtype.output=uint "
            "quant_scheme.output=per_tensor_affine quant_types=weight,input",
    .settings = "rounding=gptq",
    .folds = true,
};
