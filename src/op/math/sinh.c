/* sinh.c - Sinh: y = sinh(x). */
#include "elementwise.h"

PARE_MAP_CALL(sinhf(x))
PARE_DMAP(g *(0.5f * (pare_expf(x) + pare_expf(-x))))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, sinh(x)))

const struct pare_op pare_op_sinh = {
    .type = "Sinh",
    .doc = "Hyperbolic sine.",
    .since = 9,
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
