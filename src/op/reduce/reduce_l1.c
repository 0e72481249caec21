/* reduce_l1.c - ReduceL1: y = sum of |x| over axes. */
#include <math.h>

#include "reduce_family.h"

#define ABS_INT(v) ((v) < 0 ? (int64_t)(0 - (uint64_t)(v)) : (v))
PARE_FOLD(fold, double, fabs, PARE_FOLD_ADD)
PARE_FOLD(fold_int, int64_t, ABS_INT, PARE_FOLD_ADD_INT)

static const struct pare_reduction reduction = {
    .fold = fold,
    .fold_int = fold_int,
};

PARE_SPREAD(spread, x > 0 ? gy : x < 0 ? -gy : 0)

static const struct pare_reduce_slope slope = { .spread = spread };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_l1 = {
    PARE_REDUCE_OP("ReduceL1", "Sum of absolute values over axes."),
    .types = PARE_T_REDUCE,
    .ties = pare_reduce_ties_sum,
    .constant_channel = pare_constant_channel_zero,
    .flags = PARE_OP_WIDE,
};
