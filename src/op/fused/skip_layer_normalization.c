/* skip_layer_normalization.c - SkipLayerNormalization (com.microsoft). */
#include "skip_norm.h"

extern const struct pare_op pare_op_layer_normalization;

static const struct pare_skip_norm how = { .norm = &pare_op_layer_normalization,
                                           .beta = 3,
                                           .bias = 4 };

PARE_SKIP_NORM_BY(how)

const struct pare_op pare_op_skip_layer_normalization = {
    .type = "SkipLayerNormalization",
    .doc = "Residual sum, then LayerNormalization over the last axis.",
    .in = "TTTT?T?",
    .torch = "LayerNorm",
    .layer = { .params = PARE_IN(2) | PARE_IN(3) | PARE_IN(4), .weight = 2, .bias = 3 },
    PARE_SKIP_NORM_MEMBERS,
};
