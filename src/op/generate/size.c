/* size.c - Size: the number of elements of a tensor. */
#include "../op.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_shape_set(&n->out[0]->t, PARE_I64, 0, NULL, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_i64_mut(&n->out[0]->t)[0] = pare_numel(&n->in[0]->t);
    return 0;
}

const struct pare_op pare_op_size = {
    .type = "Size",
    .doc = "The number of elements of the input.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_SHAPES,
    .infer = infer,
    .forward = forward,
};
