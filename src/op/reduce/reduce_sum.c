/* reduce_sum.c - ReduceSum: y = sum of x over axes. */
#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SELF, PARE_FOLD_ADD)
PARE_FOLD(fold_int, int64_t, PARE_FOLD_SELF, PARE_FOLD_ADD_INT)

static const struct pare_reduction reduction = {
    .fold = fold,
    .fold_int = fold_int,
};

PARE_SPREAD(spread, gy)

static const struct pare_reduce_slope slope = { .spread = spread };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_sum = {
    PARE_REDUCE_OP("ReduceSum", "Sum over axes."),
    .types = PARE_T_REDUCE,
    .ties = pare_reduce_ties_sum,
    .constant_channel = pare_constant_channel_zero,
    .flags = PARE_OP_WIDE,
};
