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

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_forward(n, c, &reduction, err);
}

PARE_SPREAD(spread, gy / (float)r->count)

static const struct pare_reduce_slope slope = { .spread = spread };

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_backward(n, c, &slope, err);
}

const struct pare_op pare_op_reduce_mean = {
    .type = "ReduceMean",
    .doc = "Mean over axes.",
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
    .ties = pare_reduce_ties,
    .even = pare_constant_channel_same,
};
