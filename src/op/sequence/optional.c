/* optional.c - Optional: an optional with a value, or without one. */
#include "../op.h"

struct optional {
    int64_t type;
};

static const struct pare_opt optional_attrs[] = { PARE_INT("type", offsetof(struct optional, type),
                                                           "ignored: values know their type", 0,
                                                           PARE_NO_MIN, PARE_NO_MAX),
                                                  PARE_OPT_END };

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    if (n->n_in && n->in[0])
        return pare_value_copy(c->results, &n->in[0]->t, &n->out[0]->t, err);
    pare_set_absent(&n->out[0]->t);
    return 0;
}

const struct pare_op pare_op_optional = {
    .type = "Optional",
    .doc = "An optional with a value, or without one.",
    .since = 15,
    .in = "V?",
    .min_out = 1,
    .max_out = 1,
    .attrs = optional_attrs,
    .attr_size = sizeof(struct optional),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
