/* scatter.c - Scatter: ScatterElements before opset 11. */
#include "scatter_family.h"

static const struct pare_opt scatter_attrs[] = {
    PARE_INT("axis", offsetof(struct pare_scatter, axis), "axis of the indices", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_CHOICE("reduction", offsetof(struct pare_scatter, reduction),
                "how to combine an update with the old element", "none", PARE_REDUCTIONS),
    PARE_OPT_END
};

const struct pare_op pare_op_scatter = {
    .type = "Scatter",
    .doc = "Replace single elements along an axis (deprecated name).",
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
