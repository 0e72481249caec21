/* expand.c - Expand: broadcast the input to a shape. */
#include "movement.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor y = *x, shape = { .rank = 0 };
    struct pare_list list;

    PARE_TRY(pare_list_read(n, 1, none, &list, err));
    for (int i = 0; i < list.n; i++)
        if (list.v[i] < 0)
            return pare_fail(err, PARE_ESHAPE, "shape has a negative dimension: %lld",
                             (long long)list.v[i]);
    PARE_TRY(pare_shape_set(&shape, x->dtype, list.n, list.v, err));
    PARE_TRY(pare_broadcast(&y, x, &shape, err));
    pare_like(&n->out[0]->t, &y);
    return 0;
}

static int move_expand(const struct pare_node *n, const struct pare_flow *f,
                       struct pare_arena *scratch, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t from[PARE_MAX_RANK], to[PARE_MAX_RANK];
    struct pare_move m = { .rank = 0 };
    int shift = y->rank - x->rank;

    (void)scratch, (void)err;
    pare_strides(x, from);
    pare_strides(y, to);
    for (int i = 0; i < y->rank; i++) {
        bool moves = i >= shift && x->dim[i - shift] != 1;

        pare_move_axis(&m, y->dim[i], moves ? from[i - shift] : 0, to[i]);
    }
    pare_flow_box(f, 0, 0, &m);
    return 0;
}

PARE_BOTH_PASSES(move_expand)

/* Where x is broadcast, y's axis may have any size. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int shift = y->rank - x->rank;

    for (int i = 0; i < y->rank; i++)
        if (i < shift || x->dim[i - shift] != y->dim[i])
            pare_tie(t, n->out[0], i, n->out[0], i);
        else
            pare_tie(t, n->in[0], i - shift, n->out[0], i);
}

/* A 1 in the shape keeps the input's size, so it also holds for the smaller input: if all axes that
 * lose indices have one, the shape stays, which may follow a free dimension. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    struct pare_list list;
    struct pare_err err;
    bool stays = true, free = false;

    if (pare_list_read(n, 1, none, &list, &err)) {
        pare_shrunk_fail(s, "its shape is unknown");
        return;
    }
    for (int k = 0; k < list.n; k++) {
        int i = k + y->rank - list.n, from = i - (y->rank - x->rank);
        bool same = from >= 0 && x->dim[from] == y->dim[i];

        free |= list.v[k] != 1 && pare_shrunk_free(s, n->out[0], i) && !same;
        stays &= list.v[k] == 1 || pare_shrunk_dim(s, n->out[0], i) == y->dim[i];
        list.v[k] = list.v[k] == 1 || same ? 1 : pare_shrunk_dim(s, n->out[0], i);
    }
    if (stays && free)
        return;
    if (free)
        pare_shrunk_fail(s, "an axis of its result follows a free dimension");
    pare_shrunk_shape(s, 1, list.v, list.n);
}

const struct pare_op pare_op_expand = {
    .type = "Expand",
    .doc = "Broadcast the input to a shape.",
    .since = 8,
    .in = "AL",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_COPIES,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .sizes = 0x2,
    .constant_channel = pare_constant_channel_same,
    .shrink = shrink,
};
