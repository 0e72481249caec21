/* min.c - Min: the smallest of any number of inputs; NaN wins, as in numpy. */
#include "elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, a <= b ? a : b)

PARE_MAP2(a <= b || a != a ? a : b)
PARE_DMAP2(a > b ? 0 : a == b ? g / 2 : g, b > a ? 0 : a == b ? g / 2 : g)
PARE_APPLY2(PARE_LOOP2(PARE_F64, double, double, a <= b || a != a ? a : b) PARE_INT_TYPES(WHOLE))

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return pare_apply_all(n, apply, err);
}

const struct pare_op pare_op_min = {
    .type = "Min",
    .doc = "Elementwise minimum.",
    .since = 6,
    .in = "T+",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_broadcast,
    .forward = forward,
    .backward = pare_backward_choice,
    .ties = pare_ties_elementwise,
    .map2 = map2,
    .dmap2 = dmap2,
    .flags = PARE_OP_FLOAT_ONLY,
};
