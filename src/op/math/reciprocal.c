/* reciprocal.c - Reciprocal: y = 1 / x. */
#include "elementwise.h"

PARE_MAP(1 / x)
PARE_DMAP(-g *y *y)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, 1 / x))

const struct pare_op pare_op_reciprocal = {
    .type = "Reciprocal",
    .doc = "One over x.",
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
