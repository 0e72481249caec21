/* simplified_layer_normalization.c - SimplifiedLayerNormalization (ONNX Runtime): RMS norm.
 *
 * ONNX Runtime writes it in the standard domain; a second output is inv_std.
 */
#include "../nn/rms_family.h"

const struct pare_op pare_op_simplified_layer_normalization = {
    .type = "SimplifiedLayerNormalization",
    .since = 1,
    .max_out = 2,
    PARE_RMS_MEMBERS,
};
