/* arg_min.c - ArgMin: the index of the smallest element along an axis. */
#include "arg_family.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_arg_forward(n, false);
    return 0;
}

const struct pare_op pare_op_arg_min = {
    PARE_ARG_OP("ArgMin", "Index of the smallest element along an axis."),
};
