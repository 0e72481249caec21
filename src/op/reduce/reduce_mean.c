/* reduce_mean.c - ReduceMean: y = mean of x over axes. */
#include <math.h>

#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SELF, PARE_FOLD_ADD)
PARE_FOLD(fold_int, int64_t, PARE_FOLD_SELF, PARE_FOLD_ADD_INT)

static double finish(double acc, int64_t count)
{
    return count ? acc / (double)count : NAN;
}

static int64_t finish_int(int64_t acc, int64_t count)
{
    return count ? acc / count : 0;
}

static const struct pare_reduction reduction = {
    .fold = fold,
    .fold_int = fold_int,
    .finish = finish,
    .finish_int = finish_int,
};

PARE_SPREAD(spread, gy / (float)r->count)

static const struct pare_reduce_slope slope = { .spread = spread };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_mean = {
    PARE_REDUCE_OP("ReduceMean", "Mean over axes."),
    .types = PARE_T_REDUCE,
    .flags = PARE_OP_MEAN,
    .ties = pare_reduce_ties,
    .constant_channel = pare_constant_channel_same,
};
