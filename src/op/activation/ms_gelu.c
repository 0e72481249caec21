/* ms_gelu.c - Gelu of the domain com.microsoft: y = x P(N(0, 1) < x). */
#include "../math/elementwise.h"

PARE_MAP(pare_geluf(x))
PARE_DMAP(g *pare_gelu_slopef(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, 0.5 * x * erfc(-x * 0.70710678118654752)))

const struct pare_op pare_op_ms_gelu = {
    .type = "Gelu",
    .doc = "Gaussian error linear unit.",
    .domain = "com.microsoft",
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
