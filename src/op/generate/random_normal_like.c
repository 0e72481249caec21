/* random_normal_like.c - RandomNormalLike: samples of a normal distribution, in an input's shape.
 */
#include "random_family.h"

static const struct pare_opt random_normal_like_attrs[] = {
    PARE_RANDOM_REAL("mean", "the mean", low, 0),
    PARE_RANDOM_REAL("scale", "the standard deviation", high, 1), PARE_RANDOM_DTYPE(0),
    PARE_RANDOM_SEED, PARE_OPT_END
};

const struct pare_op pare_op_random_normal_like = {
    .type = "RandomNormalLike",
    .doc = "Samples of a normal distribution, in the shape of the input.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = random_normal_like_attrs,
    .attr_size = sizeof(struct pare_random),
    .flags = PARE_OP_RANDOM,
    .infer = pare_random_infer,
    .forward = pare_forward_normal,
};
