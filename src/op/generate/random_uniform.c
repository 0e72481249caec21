/* random_uniform.c - RandomUniform: samples of a uniform distribution. */
#include "random_family.h"

static const struct pare_opt random_uniform_attrs[] = {
    PARE_RANDOM_REAL("low", "lower bound, inclusive", low, 0),
    PARE_RANDOM_REAL("high", "upper bound, exclusive", high, 1),
    PARE_RANDOM_DTYPE(PARE_F32),
    PARE_RANDOM_SEED,
    PARE_RANDOM_SHAPE,
    PARE_OPT_END
};

const struct pare_op pare_op_random_uniform = {
    .type = "RandomUniform",
    .doc = "Samples of a uniform distribution.",
    .since = 1,
    .in = "",
    .min_out = 1,
    .max_out = 1,
    .attrs = random_uniform_attrs,
    .attr_size = sizeof(struct pare_random),
    .flags = PARE_OP_RANDOM,
    .infer = pare_random_infer,
    .forward = pare_forward_uniform,
};
