/* reduce_sum_square.c - ReduceSumSquare: y = sum of x^2 over axes. */
#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SQUARE, PARE_FOLD_ADD)
PARE_FOLD(fold_int, int64_t, PARE_FOLD_SQUARE_INT, PARE_FOLD_ADD_INT)

static const struct pare_reduction reduction = {
    .fold = fold,
    .fold_int = fold_int,
};

PARE_SPREAD(spread, 2 * x * gy)

static const struct pare_reduce_slope slope = { .spread = spread };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_sum_square = {
    PARE_REDUCE_OP("ReduceSumSquare", "Sum of squares over axes."),
    .types = PARE_T_REDUCE,
    .ties = pare_reduce_ties_sum,
    .constant_channel = pare_constant_channel_zero,
    .flags = PARE_OP_WIDE,
};
