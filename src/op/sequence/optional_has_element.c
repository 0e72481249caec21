/* optional_has_element.c - OptionalHasElement: whether an optional has a value. */
#include "../op.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    PARE_TRY(pare_tensor_new(c->results, &n->out[0]->t, PARE_BOOL, 0, NULL, err));
    *(uint8_t *)n->out[0]->t.data = n->n_in && n->in[0] && n->in[0]->t.dtype != PARE_ABSENT;
    return 0;
}

const struct pare_op pare_op_optional_has_element = {
    .type = "OptionalHasElement",
    .doc = "Whether an optional has a value.",
    .since = 15,
    .in = "V?",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
