/* tanh.c - Tanh: y = tanh(x). */
#include "../math/elementwise.h"

PARE_MAP(pare_tanhf(x))
PARE_DMAP(g *(1 - y * y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, tanh(x)))

const struct pare_op pare_op_tanh = {
    .type = "Tanh",
    .doc = "Hyperbolic tangent.",
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
