/* unsqueeze.c - Unsqueeze: insert axes of size 1.
 *
 * The list is an attribute before opset 13, an input since.
 */
#include "movement.h"

struct unsqueeze {
    struct pare_ints axes;
};

static const struct pare_opt unsqueeze_attrs[] = {
    PARE_INTS("axes", offsetof(struct unsqueeze, axes), "new axes, as numbered in the result",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int added(const struct pare_node *n, bool *add, int *rank, struct pare_err *err)
{
    const struct unsqueeze *a = n->attr;
    struct pare_list axes;

    PARE_TRY(pare_list_read(n, 1, a->axes, &axes, err)); /* the rank needs the count first */
    if (axes.n < 0)
        return pare_fail(err, PARE_EFORMAT, "it has no axes");
    *rank = n->in[0]->t.rank + axes.n;
    if (*rank > PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the result has %d dimensions, at most %d are handled",
                         *rank, PARE_MAX_RANK);
    PARE_TRY(pare_axes_read(n, 1, a->axes, *rank, &axes, err));
    for (int i = 0; i < *rank; i++)
        add[i] = false;
    for (int k = 0; k < axes.n; k++)
        add[axes.v[k]] = true;
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK];
    bool add[PARE_MAX_RANK];
    int rank;

    PARE_TRY(added(n, add, &rank, err));
    for (int i = 0, k = 0; i < rank; i++)
        dim[i] = add[i] ? 1 : x->dim[k++];
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, dim, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    bool add[PARE_MAX_RANK];
    struct pare_err err;
    int rank;

    if (added(n, add, &rank, &err))
        return;
    for (int i = 0, k = 0; i < rank; i++)
        if (!add[i])
            pare_tie(t, n->in[0], k++, n->out[0], i);
}

const struct pare_op pare_op_unsqueeze = {
    .type = "Unsqueeze",
    .doc = "Insert axes of size 1.",
    .since = 1,
    .in = "AL?",
    .min_out = 1,
    .max_out = 1,
    .attrs = unsqueeze_attrs,
    .attr_size = sizeof(struct unsqueeze),
    .flags = PARE_OP_VIEW | PARE_OP_COPIES,
    .int8_since = 1,
    .infer = infer,
    .forward = pare_forward_copy,
    .backward = pare_backward_copy,
    .ties = ties,
    .constant_channel = pare_constant_channel_same,
};
