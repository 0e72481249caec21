/* random_uniform_like.c - RandomUniformLike: samples of a uniform distribution, in an input's
 * shape. */
#include "random_family.h"

static const struct pare_opt random_uniform_like_attrs[] = {
    PARE_RANDOM_REAL("low", "lower bound, inclusive", low, 0),
    PARE_RANDOM_REAL("high", "upper bound, exclusive", high, 1), PARE_RANDOM_DTYPE(0),
    PARE_RANDOM_SEED, PARE_OPT_END
};

const struct pare_op pare_op_random_uniform_like = {
    .type = "RandomUniformLike",
    .doc = "Samples of a uniform distribution, in the shape of the input.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = random_uniform_like_attrs,
    .attr_size = sizeof(struct pare_random),
    .flags = PARE_OP_RANDOM,
    .infer = pare_random_infer,
    .forward = pare_forward_uniform,
};
