/* reduce_log_sum.c - ReduceLogSum: y = log of the sum of x over axes. */
#include <math.h>

#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SELF, PARE_FOLD_ADD)

static double finish(double acc, int64_t count)
{
    (void)count;
    return log(acc);
}

static const struct pare_reduction reduction = {
    .fold = fold,
    .finish = finish,
};

/* aux[0] is the sum itself; exp(y) would be inexact. */
static void gather(const struct pare_reduce_row *r)
{
    for (int64_t i = 0; i < r->n; i++)
        r->aux[0][i * r->step] += (double)r->x[i];
}
PARE_SPREAD(spread, (float)((double)gy / r->aux[0][i * r->step]))

static const struct pare_reduce_slope slope = { .spread = spread, .gather = gather };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_log_sum = {
    PARE_REDUCE_OP("ReduceLogSum", "Logarithm of the sum over axes."),
    .types = PARE_T_REDUCE,
    .ties = pare_reduce_ties,
    .flags = PARE_OP_WIDE,
};
