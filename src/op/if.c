/* if.c - If: run one of two subgraphs, depending on a condition.
 *
 * The results are unknown before the condition is: shapes of the branches may differ.
 */
#include "op.h"

struct branches {
    struct pare_graph *then_branch, *else_branch;
};

static const struct pare_opt if_attrs[] = {
    { "then_branch", "subgraph that runs if the condition is true", PARE_OPT_GRAPH,
      offsetof(struct branches, then_branch), 0, 0, 0, NULL, NULL, true, NULL },
    { "else_branch", "subgraph that runs if it is false", PARE_OPT_GRAPH,
      offsetof(struct branches, else_branch), 0, 0, 0, NULL, NULL, true, NULL },
    PARE_OPT_END
};

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct branches *a = n->attr;
    const struct pare_tensor *cond = &n->in[0]->t;

    if (pare_numel(cond) != 1)
        return pare_fail(err, PARE_ESHAPE, "the condition has %lld elements, expected 1",
                         (long long)pare_numel(cond));
    return c->call(c, *(const uint8_t *)cond->data ? a->then_branch : a->else_branch, n, err);
}

const struct pare_op pare_op_if = {
    .type = "If",
    .doc = "Run one of two subgraphs, depending on a condition.",
    .since = 1,
    .in = "B",
    .min_out = 1,
    .max_out = -1,
    .attrs = if_attrs,
    .attr_size = sizeof(struct branches),
    .flags = PARE_OP_ALLOCS,
    .forward = forward,
};
