/* sequence_length.c - SequenceLength: the number of elements of a sequence. */
#include "../op.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    PARE_TRY(pare_tensor_new(c->results, &n->out[0]->t, PARE_I64, 0, NULL, err));
    *pare_i64_mut(&n->out[0]->t) = n->in[0]->t.dim[0];
    return 0;
}

const struct pare_op pare_op_sequence_length = {
    .type = "SequenceLength",
    .doc = "The number of elements of a sequence.",
    .since = 11,
    .in = "S",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
