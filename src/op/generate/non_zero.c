/* non_zero.c - NonZero: the positions of all elements that are not zero, one column each. */
#include "../shape/movement.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[2] = { x->rank ? x->rank : 1, 0 }, count = pare_numel(x);

    PARE_TRY(pare_need(n, 0, err));
    for (int64_t i = 0; i < count; i++)
        dim[1] += pare_get(x, i) != 0;
    return pare_shape_set(&n->out[0]->t, PARE_I64, 2, dim, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t count = pare_numel(x), k = 0;
    struct pare_walk w;

    (void)c, (void)err;
    pare_walk_start(&w, x, NULL, 0);
    for (int64_t i = 0; i < count; i++, pare_walk_next(&w)) {
        if (pare_get(x, i) == 0)
            continue;
        for (int64_t a = 0; a < y->dim[0]; a++)
            pare_i64_mut(y)[a * y->dim[1] + k] = w.idx[a];
        k++;
    }
    return 0;
}

const struct pare_op pare_op_non_zero = {
    .type = "NonZero",
    .doc = "The positions of all elements that are not zero.",
    .since = 9,
    .in = "T",
    .types = PARE_T_NUMERIC | PARE_T(PARE_BOOL) | PARE_T(PARE_F16) | PARE_T(PARE_BF16) |
             PARE_T(PARE_U4) | PARE_T(PARE_I4),
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_STEPS,
    .infer = infer,
    .forward = forward,
};
