/* tile.c - Tile: repeat the tensor along each axis. */
#include "movement.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK];
    struct pare_list repeats;

    PARE_TRY(pare_list_read(n, 1, none, &repeats, err));
    if (repeats.n != x->rank)
        return pare_fail(err, PARE_ESHAPE, "%d repeats are given for an input of %d dimensions",
                         repeats.n, x->rank);
    for (int i = 0; i < x->rank; i++) {
        if (repeats.v[i] < 0)
            return pare_fail(err, PARE_ESHAPE, "axis %d is repeated %lld times, expected 0 or more",
                             i, (long long)repeats.v[i]);
        PARE_TRY(pare_mul_size(x->dim[i], repeats.v[i], &dim[i], err));
    }
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank, dim, err);
}

/* A copy to (r0, d0, r1, d1, ...) with stride 0 at the source along every r. */
static int move_tile(const struct pare_node *n, const struct pare_flow *f,
                     struct pare_arena *scratch, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t from[PARE_MAX_RANK], to[PARE_MAX_RANK];
    struct pare_move m = { .rank = 0 };

    (void)scratch, (void)err;
    pare_strides(x, from);
    pare_strides(y, to);
    for (int i = 0; i < x->rank; i++) {
        pare_move_axis(&m, y->dim[i] / x->dim[i], 0, to[i] * x->dim[i]);
        pare_move_axis(&m, x->dim[i], from[i], to[i]);
    }
    pare_flow_box(f, 0, 0, &m);
    return 0;
}

PARE_BOTH_PASSES(move_tile)

static bool pick(const struct pare_node *n, struct pare_arena *a, struct pare_pick *p)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;

    for (int i = 0; i < x->rank; i++) {
        if (x->dim[i] == y->dim[i])
            continue;
        p->at[i] = pare_alloc_raw(a, (size_t)y->dim[i], sizeof(**p->at));
        if (!p->at[i])
            return false;
        for (int64_t k = 0; k < y->dim[i]; k++)
            p->at[i][k] = k % x->dim[i];
    }
    return true;
}

/* y's axis is (repeat, x's axis). */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;

    for (int i = 0; i < x->rank; i++) {
        struct pare_digit digit[2] = { { NULL, -1, 0 }, { n->in[0], i, x->dim[i] } };

        if (!x->dim[i] || !y->dim[i])
            continue;
        digit[0].size = y->dim[i] / x->dim[i];
        pare_tie_digits(t, n->out[0], i, digit, 2);
    }
}

const struct pare_op pare_op_tile = {
    .type = "Tile",
    .doc = "Repeat the input along each axis.",
    .since = 6,
    .in = "AL",
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .pick = pick,
    .ties = ties,
};
