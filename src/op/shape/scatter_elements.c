/* scatter_elements.c - ScatterElements: a copy where y[at[i, j, k], j, k] = new[i, j, k] for axis
 * 0, and so on; or combined with what is there. */
#include "scatter_family.h"

static const struct pare_opt scatter_elements_attrs[] = {
    PARE_INT("axis", offsetof(struct pare_scatter, axis), "the axis that the indices choose from",
             0, PARE_ANY),
    PARE_CHOICE("reduction", offsetof(struct pare_scatter, reduction),
                "how an update is combined with what is there", "none", PARE_REDUCTIONS),
    PARE_OPT_END
};

const struct pare_op pare_op_scatter_elements = {
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
