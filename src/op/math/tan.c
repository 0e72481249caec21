/* tan.c - Tan: y = tan(x). */
#include "elementwise.h"

PARE_MAP_CALL(tanf(x))
PARE_DMAP(g *(1 + y * y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, tan(x)))

const struct pare_op pare_op_tan = {
    .type = "Tan",
    .doc = "Tangent.",
    .since = 7,
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
