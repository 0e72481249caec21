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

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_forward(n, c, &reduction, err);
}

PARE_SPREAD(spread, x > 0 ? gy : x < 0 ? -gy : 0)

static const struct pare_reduce_slope slope = { .spread = spread };

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_backward(n, c, &slope, err);
}

const struct pare_op pare_op_reduce_l1 = {
    .type = "ReduceL1",
    .doc = "Sum of absolute values over axes.",
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
