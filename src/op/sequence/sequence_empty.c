/* sequence_empty.c - SequenceEmpty: a sequence without elements. */
#include "../op.h"

struct empty {
    int64_t dtype;
};

static const struct pare_opt empty_attrs[] = { PARE_INT("dtype", offsetof(struct empty, dtype),
                                                        "ignored: elements know their type", 1,
                                                        PARE_NO_MIN, PARE_NO_MAX),
                                               PARE_OPT_END };

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_sequence_new(c->results, &n->out[0]->t, 0, err);
}

const struct pare_op pare_op_sequence_empty = {
    .type = "SequenceEmpty",
    .doc = "A sequence without elements.",
    .since = 11,
    .in = "",
    .min_out = 1,
    .max_out = 1,
    .attrs = empty_attrs,
    .attr_size = sizeof(struct empty),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
