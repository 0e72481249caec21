/* exp.c - Exp: y = exp(x). */
#include "elementwise.h"

PARE_MAP(pare_expf(x))
PARE_DMAP(g *y)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, exp(x)))

const struct pare_op pare_op_exp = {
    .type = "Exp",
    .doc = "Exponential.",
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
