/* sequence_at.c - SequenceAt: one element of a sequence. */
#include "sequence_family.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *s = &n->in[0]->t;
    int64_t at = 0;

    PARE_TRY(pare_sequence_position(n, 1, s->dim[0], &at, err));
    return pare_value_copy(c->results, &pare_elements(s)[at], &n->out[0]->t, err);
}

const struct pare_op pare_op_sequence_at = {
    .type = "SequenceAt",
    .doc = "One element of a sequence.",
    .since = 11,
    .in = "SI",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
