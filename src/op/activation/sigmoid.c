/* sigmoid.c - Sigmoid: y = 1 / (1 + exp(-x)). */
#include "../math/elementwise.h"

PARE_MAP(pare_sigmoidf(x))
PARE_DMAP(g *y *(1 - y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, 1 / (1 + exp(-x))))

const struct pare_op pare_op_sigmoid = {
    .type = "Sigmoid",
    .doc = "Logistic function.",
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
