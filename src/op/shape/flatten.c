/* flatten.c - Flatten: reshape to a matrix whose rows are the axes before `axis`. */
#include "movement.h"

struct flatten {
    int64_t axis;
};

static const struct pare_opt flatten_attrs[] = { PARE_INT("axis", offsetof(struct flatten, axis),
                                                          "first axis that is part of the columns",
                                                          1, PARE_NO_MIN, PARE_NO_MAX),
                                                 PARE_OPT_END };

/* Unlike in other operators the axis may be the rank: all axes become rows. */
static int split_at(const struct pare_node *n, int *axis, struct pare_err *err)
{
    const struct flatten *a = n->attr;
    int rank = n->in[0]->t.rank;

    if (a->axis == rank) {
        *axis = rank;
        return 0;
    }
    return pare_axis(a->axis, rank, axis, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[2] = { 1, 1 };
    int axis;

    PARE_TRY(split_at(n, &axis, err));
    for (int i = 0; i < x->rank; i++)
        PARE_TRY(pare_mul_size(dim[i >= axis], x->dim[i], &dim[i >= axis], err));
    return pare_shape_set(&n->out[0]->t, x->dtype, 2, dim, err);
}

const struct pare_op pare_op_flatten = {
    .type = "Flatten",
    .doc = "The same elements as a matrix.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = flatten_attrs,
    .attr_size = sizeof(struct flatten),
    .flags = PARE_OP_VIEW | PARE_OP_COPIES,
    .int8_since = 9,
    .infer = infer,
    .forward = pare_forward_copy,
    .backward = pare_backward_copy,
    .ties = pare_ties_reshape,
    .constant_channel = pare_constant_channel_same,
};
