/* reduce_sum_square.c - ReduceSumSquare: y = sum of x^2 over axes. */
#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SQUARE, PARE_FOLD_ADD)
PARE_FOLD(fold_int, int64_t, PARE_FOLD_SQUARE_INT, PARE_FOLD_ADD_INT)

static const struct pare_reduction reduction = {
    .fold = fold,
    .fold_int = fold_int,
};

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_forward(n, c, &reduction, err);
}

PARE_SPREAD(spread, 2 * x * gy)

static const struct pare_reduce_slope slope = { .spread = spread };

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_backward(n, c, &slope, err);
}

const struct pare_op pare_op_reduce_sum_square = {
    .type = "ReduceSumSquare",
    .doc = "Sum of squares over axes.",
    .since = 1,
    .in = "TL?",
    .types = PARE_T_REDUCE,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_reduce_attrs,
    .attr_size = sizeof(struct pare_reduce),
    .infer = pare_reduce_infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_reduce_ties_sum,
};
