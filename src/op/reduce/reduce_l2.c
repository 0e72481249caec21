/* reduce_l2.c - ReduceL2: y = sqrt of the sum of x^2 over axes. */
#include <math.h>

#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SQUARE, PARE_FOLD_ADD)

static double finish(double acc, int64_t count)
{
    (void)count;
    return sqrt(acc);
}

static const struct pare_reduction reduction = {
    .fold = fold,
    .finish = finish,
};

/* The norm has no gradient at zero: it is taken as 0. */
PARE_SPREAD(spread, y > 0 ? gy * (x / y) : 0)

static const struct pare_reduce_slope slope = { .spread = spread };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_l2 = {
    PARE_REDUCE_OP("ReduceL2", "Euclidean norm over axes."),
    .types = PARE_T_REDUCE,
    .ties = pare_reduce_ties_sum,
    .constant_channel = pare_constant_channel_zero,
    .flags = PARE_OP_WIDE,
};
