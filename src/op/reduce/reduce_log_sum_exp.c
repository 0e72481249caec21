/* reduce_log_sum_exp.c - ReduceLogSumExp: y = log of the sum of exp(x) over axes. */
#include <math.h>

#include "reduce_family.h"

PARE_FOLD(fold, double, exp, PARE_FOLD_ADD)

static double finish(double acc, int64_t count)
{
    (void)count;
    return log(acc);
}

static const struct pare_reduction reduction = {
    .fold = fold,
    .finish = finish,
    .centered = true, /* so that exp() cannot overflow */
};

/* The slope is exp(x - y).  The sum of slopes, aux[0], would be 1 but for the rounding of y, which
 * is large if y is; dividing by it cancels the error.  A y of minus infinity has no gradient. */
static void gather(const struct pare_reduce_row *r)
{
    for (int64_t i = 0; i < r->n; i++)
        r->aux[0][i * r->step] += exp((double)r->x[i] - (double)r->y[i * r->step]);
}
PARE_SPREAD(spread,
            y == -INFINITY ? 0 : gy * (float)(exp((double)x - (double)y) / r->aux[0][i * r->step]))

static const struct pare_reduce_slope slope = { .spread = spread, .gather = gather };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_log_sum_exp = {
    PARE_REDUCE_OP("ReduceLogSumExp", "Logarithm of the sum of exponentials over axes."),
    .types = PARE_T_REDUCE,
    .ties = pare_reduce_ties,
    .flags = PARE_OP_WIDE,
};
