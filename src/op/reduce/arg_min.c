/* arg_min.c - ArgMin: where the smallest element along an axis is. */
#include "arg_family.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_arg_forward(n, false);
    return 0;
}

const struct pare_op pare_op_arg_min = {
    .type = "ArgMin",
    .doc = "Index of the smallest element along an axis.",
    .since = 1,
    .in = "T",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_arg_attrs,
    .attr_size = sizeof(struct pare_arg),
    .infer = pare_arg_infer,
    .forward = forward,
    .ties = pare_arg_ties,
};
