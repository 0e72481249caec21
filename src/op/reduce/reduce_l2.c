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

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_forward(n, c, &reduction, err);
}

/* Zeros have no direction: their slope is taken as 0. */
PARE_SPREAD(spread, y > 0 ? gy * (x / y) : 0)

static const struct pare_reduce_slope slope = { .spread = spread };

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_backward(n, c, &slope, err);
}

const struct pare_op pare_op_reduce_l2 = {
    .type = "ReduceL2",
    .doc = "Euclidean length over axes.",
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
