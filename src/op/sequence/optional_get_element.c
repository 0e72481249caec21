/* optional_get_element.c - OptionalGetElement: the value of an optional. */
#include "../op.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    if (n->in[0]->t.dtype == PARE_ABSENT)
        return pare_fail(err, PARE_ESHAPE, "'%s' has no value", n->in[0]->name);
    return pare_value_copy(c->results, &n->in[0]->t, &n->out[0]->t, err);
}

const struct pare_op pare_op_optional_get_element = {
    .type = "OptionalGetElement",
    .doc = "The value of an optional.",
    .since = 15,
    .in = "V",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
