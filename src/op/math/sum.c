/* sum.c - Sum: the sum of any number of inputs. */
#include "elementwise.h"

PARE_MAP2(a + b)
PARE_DMAP2(g, g)
PARE_APPLY2(PARE_LOOP2(PARE_F64, double, double, a + b))

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return pare_apply_all(n, apply, err);
}

const struct pare_op pare_op_sum = {
    .type = "Sum",
    .doc = "Elementwise sum of all inputs.",
    .since = 6,
    .in = "T+",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_LINEAR,
    .infer = pare_infer_broadcast,
    .forward = forward,
    .backward = pare_backward_sum,
    .ties = pare_ties_elementwise,
    .map2 = map2,
    .dmap2 = dmap2,
};
