/* softplus.c - Softplus: y = log(1 + exp(x)). */
#include "../math/elementwise.h"

PARE_MAP(pare_softplusf(x))
PARE_DMAP(g *pare_sigmoidf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, (x > 0 ? x : 0) + log1p(exp(-fabs(x)))))

const struct pare_op pare_op_softplus = {
    .type = "Softplus",
    .doc = "A smooth Relu.",
    .since = 1,
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
