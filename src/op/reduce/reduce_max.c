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

/* Equal elements share the gradient equally, as in PyTorch's amax; aux[0] is their number. */
static void gather(const struct pare_reduce_row *r)
{
    for (int64_t i = 0; i < r->n; i++)
        r->aux[0][i * r->step] += r->x[i] == r->y[i * r->step];
}
PARE_SPREAD(spread, x == y ? gy / (float)r->aux[0][i * r->step] : 0)

static const struct pare_reduce_slope slope = { .spread = spread, .gather = gather };

PARE_REDUCE_CALLS

const struct pare_op pare_op_reduce_max = {
    PARE_REDUCE_OP("ReduceMax", "Largest over axes."),
    .types = PARE_T_REDUCE | PARE_T(PARE_U8) | PARE_T(PARE_I8) | PARE_T(PARE_BOOL),
    .ties = pare_reduce_ties,
    .constant_channel = pare_constant_channel_same,
};
