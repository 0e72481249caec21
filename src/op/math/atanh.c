/* atanh.c - Atanh: y = atanh(x). */
#include "elementwise.h"

PARE_MAP_CALL(atanhf(x))
PARE_DMAP(g / ((1 - x) * (1 + x)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, atanh(x)))

const struct pare_op pare_op_atanh = {
    .type = "Atanh",
    .doc = "Inverse hyperbolic tangent.",
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
