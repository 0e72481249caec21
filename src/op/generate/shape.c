/* shape.c - Shape: the dimensions of a tensor, or some of them, as a tensor. */
#include "../shape/movement.h"

struct shape {
    int64_t start, end;
};

#define TO_THE_END 9e18 /* exact as a double, and clamped like any end beyond the last axis */

static const struct pare_opt shape_attrs[] = {
    PARE_INT("start", offsetof(struct shape, start), "the first axis", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("end", offsetof(struct shape, end), "one past the last axis", TO_THE_END, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_OPT_END
};

static int bound(int64_t v, int rank)
{
    v = v < 0 ? v + rank : v;
    return v < 0 ? 0 : v > rank ? rank : (int)v;
}

int pare_shape_first(const struct pare_node *n)
{
    const struct shape *a = n->attr;

    return bound(a->start, n->in[0]->t.rank);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct shape *a = n->attr;
    int rank = n->in[0]->t.rank;
    int64_t count = bound(a->end, rank) - bound(a->start, rank);

    count = count < 0 ? 0 : count;
    return pare_shape_set(&n->out[0]->t, PARE_I64, 1, &count, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct shape *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;

    (void)c, (void)err;
    for (int64_t i = 0; i < y->dim[0]; i++)
        pare_i64_mut(y)[i] = x->dim[bound(a->start, x->rank) + i];
    return 0;
}

/* Any of its axes may shrink; uses of their sizes are checked in graph/keep_sets_sizes.c. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    for (int i = 0; i < n->in[0]->t.rank; i++)
        pare_tie(t, n->in[0], i, n->in[0], i);
}

const struct pare_op pare_op_shape = {
    .type = "Shape",
    .doc = "The dimensions of the input.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = shape_attrs,
    .attr_size = sizeof(struct shape),
    .flags = PARE_OP_SHAPES,
    .infer = infer,
    .forward = forward,
    .ties = ties,
};
