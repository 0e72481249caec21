/* squeeze.c - Squeeze: remove axes of size 1, those listed or all.
 *
 * The list is an attribute before opset 13, an input since.
 */
#include "movement.h"

struct squeeze {
    struct pare_ints axes;
};

static const struct pare_opt squeeze_attrs[] = {
    PARE_INTS("axes", offsetof(struct squeeze, axes), "axes to remove (default: all of size 1)",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int dropped(const struct pare_node *n, bool *drop, struct pare_err *err)
{
    const struct squeeze *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    char buf[PARE_SHAPE_TEXT];
    struct pare_list axes;

    PARE_TRY(pare_axes_read(n, 1, a->axes, x->rank, &axes, err));
    for (int i = 0; i < x->rank; i++)
        drop[i] = axes.n < 0 && x->dim[i] == 1;
    for (int k = 0; k < axes.n; k++) {
        if (x->dim[axes.v[k]] != 1)
            return pare_fail(err, PARE_ESHAPE, "axis %d of an input %s does not have size 1",
                             (int)axes.v[k], pare_shape_text(x, buf, sizeof(buf)));
        drop[axes.v[k]] = true;
    }
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    bool drop[PARE_MAX_RANK] = { false };
    int64_t dim[PARE_MAX_RANK];
    int rank = 0;

    PARE_TRY(dropped(n, drop, err));
    for (int i = 0; i < x->rank; i++)
        if (!drop[i])
            dim[rank++] = x->dim[i];
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, dim, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    bool drop[PARE_MAX_RANK] = { false };
    struct pare_err err;

    if (dropped(n, drop, &err))
        return;
    for (int i = 0, k = 0; i < n->in[0]->t.rank; i++)
        if (!drop[i])
            pare_tie(t, n->in[0], i, n->out[0], k++);
}

const struct pare_op pare_op_squeeze = {
    .type = "Squeeze",
    .doc = "Remove axes of size 1.",
    .since = 1,
    .in = "AL?",
    .min_out = 1,
    .max_out = 1,
    .attrs = squeeze_attrs,
    .attr_size = sizeof(struct squeeze),
    .flags = PARE_OP_VIEW | PARE_OP_COPIES,
    .int8_since = 1,
    .infer = infer,
    .forward = pare_forward_copy,
    .backward = pare_backward_copy,
    .ties = ties,
    .constant_channel = pare_constant_channel_same,
};
