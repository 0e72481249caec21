/* scatter_elements.c - ScatterElements: a copy where y[at[i, j, k], j, k] = new[i, j, k] for axis
 * 0, and so on; or combined with what is there. */
#include "scatter_family.h"

static const struct pare_opt scatter_elements_attrs[] = {
    { "axis", "the axis that the indices choose from", PARE_OPT_INT,
      offsetof(struct pare_scatter, axis), 0, PARE_ANY, NULL, NULL, false },
    { "reduction", "how an update is combined with what is there", PARE_OPT_STR,
      offsetof(struct pare_scatter, reduction), 0, 0, 0, "none", PARE_REDUCTIONS, false },
    PARE_OPT_END
};

const struct pare_op pare_op_scatter_elements = {
    .abi = PARE_ABI,
    .type = "ScatterElements",
    .doc = "Single elements replaced or combined along an axis.",
    .since = 11,
    .in = "TIT",
    .min_out = 1,
    .max_out = 1,
    .attrs = scatter_elements_attrs,
    .attr_size = sizeof(struct pare_scatter),
    .infer = pare_scatter_infer,
    .forward = pare_scatter_forward,
    .backward = pare_scatter_backward,
};
