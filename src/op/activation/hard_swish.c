/* hard_swish.c - HardSwish: y = x max(0, min(1, x / 6 + 1/2)). */
#include "../math/elementwise.h"

#define UNIT(v) ((v) < 0 ? 0 : (v) > 1 ? 1 : (v))

PARE_MAP(x *UNIT(x *(1 / 6.0f) + 0.5f))
PARE_DMAP(x < -3 ? 0 : x <= 3 ? g * (x * (1 / 3.0f) + 0.5f) : g)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x *UNIT(x / 6 + 0.5)))

const struct pare_op pare_op_hard_swish = {
    .type = "HardSwish",
    .doc = "x times a line cut off at 0 and 1.",
    .since = 14,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_same,
    .forward = forward,
    .backward = pare_backward_map,
    .ties = pare_ties_elementwise,
    .map = map,
    .dmap = dmap,
};
