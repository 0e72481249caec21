/* arg_max.c - ArgMax: the index of the largest element along an axis. */
#include "arg_family.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_arg_forward(n, true);
    return 0;
}

const struct pare_op pare_op_arg_max = {
    PARE_ARG_OP("ArgMax", "Index of the largest element along an axis."),
};
