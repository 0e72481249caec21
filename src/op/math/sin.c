/* sin.c - Sin: y = sin(x). */
#include "elementwise.h"

PARE_MAP_CALL(sinf(x))
PARE_DMAP_CALL(g *cosf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, sin(x)))

const struct pare_op pare_op_sin = {
    .type = "Sin",
    .doc = "Sine.",
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
