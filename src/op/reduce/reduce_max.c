/* reduce_max.c - ReduceMax: y = largest x over axes. */
#include <math.h>

#include "reduce_family.h"

PARE_FOLD(fold, double, PARE_FOLD_SELF, PARE_FOLD_MAX)
PARE_FOLD(fold_int, int64_t, PARE_FOLD_SELF, PARE_FOLD_MAX)

static const struct pare_reduction reduction = {
    .start = -INFINITY,
    .start_int = INT64_MIN,
    .fold = fold,
    .fold_int = fold_int,
    .ordered = true,
};

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_forward(n, c, &reduction, err);
}

/* Equal ones share the gradient evenly, as PyTorch's amax does; aux[0] is how many they are. */
static void gather(const struct pare_reduce_row *r)
{
    for (int64_t i = 0; i < r->n; i++)
        r->aux[0][i * r->step] += r->x[i] == r->y[i * r->step];
}
PARE_SPREAD(spread, x == y ? gy / (float)r->aux[0][i * r->step] : 0)

static const struct pare_reduce_slope slope = { .spread = spread, .gather = gather };

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_reduce_backward(n, c, &slope, err);
}

const struct pare_op pare_op_reduce_max = {
    .type = "ReduceMax",
    .doc = "Largest over axes.",
    .since = 1,
    .in = "TL?",
    .types = PARE_T_REDUCE | PARE_T(PARE_U8) | PARE_T(PARE_I8) | PARE_T(PARE_BOOL),
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
