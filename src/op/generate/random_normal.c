/* random_normal.c - RandomNormal: samples of a normal distribution. */
#include "random_family.h"

static const struct pare_opt random_normal_attrs[] = {
    PARE_RANDOM_REAL("mean", "the mean", low, 0),
    PARE_RANDOM_REAL("scale", "the standard deviation", high, 1),
    PARE_RANDOM_DTYPE(PARE_F32),
    PARE_RANDOM_SEED,
    PARE_RANDOM_SHAPE,
    PARE_OPT_END
};

const struct pare_op pare_op_random_normal = {
    .type = "RandomNormal",
    .doc = "Samples of a normal distribution.",
    .since = 1,
    .in = "",
    .min_out = 1,
    .max_out = 1,
    .attrs = random_normal_attrs,
    .attr_size = sizeof(struct pare_random),
    .flags = PARE_OP_RANDOM,
    .infer = pare_random_infer,
    .forward = pare_forward_normal,
};
