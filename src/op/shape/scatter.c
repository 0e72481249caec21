/* scatter.c - Scatter: what ScatterElements was called before operator set 11. */
#include "scatter_family.h"

static const struct pare_opt scatter_attrs[] = {
    PARE_INT("axis", offsetof(struct pare_scatter, axis), "the axis that the indices choose from",
             0, PARE_ANY),
    PARE_CHOICE("reduction", offsetof(struct pare_scatter, reduction),
                "how an update is combined with what is there", "none", PARE_REDUCTIONS),
    PARE_OPT_END
};

const struct pare_op pare_op_scatter = {
    .type = "Scatter",
    .doc = "Single elements replaced along an axis, under its old name.",
    .since = 9,
    .in = "TIT",
    .min_out = 1,
    .max_out = 1,
    .attrs = scatter_attrs,
    .attr_size = sizeof(struct pare_scatter),
    .infer = pare_scatter_infer,
    .forward = pare_scatter_forward,
    .backward = pare_scatter_backward,
};
