/* sqrt.c - Sqrt: y = sqrt(x). */
#include "elementwise.h"

PARE_MAP(sqrtf(x))
PARE_DMAP(g / (2 * y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, sqrt(x)))

const struct pare_op pare_op_sqrt = {
    .type = "Sqrt",
    .doc = "Square root.",
    .since = 6,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_BY_Y,
    .infer = pare_infer_same,
    .forward = forward,
    .backward = pare_backward_map,
    .ties = pare_ties_elementwise,
    .map = map,
    .dmap = dmap,
};
