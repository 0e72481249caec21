/* sequence_construct.c - SequenceConstruct: a sequence of the inputs. */
#include "../op.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    PARE_TRY(pare_sequence_new(c->results, &n->out[0]->t, n->n_in, err));
    for (int i = 0; i < n->n_in; i++)
        PARE_TRY(pare_value_copy(c->results, &n->in[i]->t,
                                 (struct pare_tensor *)n->out[0]->t.data + i, err));
    return 0;
}

const struct pare_op pare_op_sequence_construct = {
    .type = "SequenceConstruct",
    .doc = "A sequence of the inputs.",
    .since = 11,
    .in = "T+",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
