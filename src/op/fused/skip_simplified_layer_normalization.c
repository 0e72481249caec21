/* skip_simplified_layer_normalization.c - SkipSimplifiedLayerNormalization (com.microsoft). */
#include "skip_norm.h"

extern const struct pare_op pare_op_simplified_layer_normalization;

static const struct pare_skip_norm how = { .norm = &pare_op_simplified_layer_normalization,
                                           .beta = -1,
                                           .bias = 3 };

PARE_SKIP_NORM_BY(how)

const struct pare_op pare_op_skip_simplified_layer_normalization = {
    .type = "SkipSimplifiedLayerNormalization",
    .doc = "Residual sum, then division by the root mean square over the last axis.",
    .in = "TTTT?",
    .torch = "RMSNorm",
    .layer = { .params = PARE_IN(2) | PARE_IN(3), .weight = 2 },
    PARE_SKIP_NORM_MEMBERS,
};
