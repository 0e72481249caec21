/* if.c - If: run one of two bodies, depending on a condition.
 *
 * The bodies' results may have different shapes; then the shapes are known only at run time.
 */
#include "../op.h"

struct branches {
    struct pare_graph *then_branch, *else_branch;
};

static const struct pare_opt if_attrs[] = {
    { "then_branch", "body that runs if the condition is true", PARE_OPT_GRAPH,
      offsetof(struct branches, then_branch), 0, 0, 0, NULL, NULL, true, NULL },
    { "else_branch", "body that runs if it is false", PARE_OPT_GRAPH,
      offsetof(struct branches, else_branch), 0, 0, 0, NULL, NULL, true, NULL },
    PARE_OPT_END
};

static const struct pare_graph *branch(const struct pare_node *n)
{
    const struct branches *a = n->attr;

    return *(const uint8_t *)n->in[0]->t.data ? a->then_branch : a->else_branch;
}

static const struct pare_graph *chosen(const struct pare_node *n)
{
    const struct pare_value *cond = n->in[0];

    return cond->flags & PARE_V_CONST && cond->t.data && pare_numel(&cond->t) == 1 ? branch(n)
                                                                                   : NULL;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *cond = &n->in[0]->t;
    struct pare_tensor *out = pare_alloc(c->scratch, (size_t)n->n_out, sizeof(*out));

    if (!out)
        return pare_no_memory(err, "for the results of a body");
    if (pare_numel(cond) != 1)
        return pare_fail(err, PARE_ESHAPE, "the condition has %lld elements, expected 1",
                         (long long)pare_numel(cond));
    PARE_TRY(c->call(c, branch(n), NULL, 0, out, n->n_out, err));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            n->out[i]->t = out[i];
    return 0;
}

const struct pare_op pare_op_if = {
    .type = "If",
    .doc = "Run one of two bodies, depending on a condition.",
    .since = 1,
    .in = "B",
    .min_out = 1,
    .max_out = -1,
    .attrs = if_attrs,
    .attr_size = sizeof(struct branches),
    .flags = PARE_OP_ALLOCS | PARE_OP_CHOOSES,
    .forward = forward,
    .chosen = chosen,
};
