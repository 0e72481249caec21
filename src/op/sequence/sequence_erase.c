/* sequence_erase.c - SequenceErase: a sequence without one of its elements. */
#include "sequence_family.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *s = &n->in[0]->t, *old = pare_elements(s);
    int64_t count = s->dim[0], at = count - 1;
    struct pare_tensor y;

    if (!count)
        return pare_fail(err, PARE_ESHAPE, "the sequence is empty");
    PARE_TRY(pare_sequence_position(n, 1, count, &at, err));
    PARE_TRY(pare_sequence_new(c->results, &y, count - 1, err));
    for (int64_t i = 0; i + 1 < count; i++)
        ((struct pare_tensor *)y.data)[i] = old[i < at ? i : i + 1];
    n->out[0]->t = y;
    return 0;
}

const struct pare_op pare_op_sequence_erase = {
    .type = "SequenceErase",
    .doc = "A sequence without one of its elements.",
    .since = 11,
    .in = "SI?",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
