/* cosh.c - Cosh: y = cosh(x). */
#include "elementwise.h"

PARE_MAP_CALL(coshf(x))
PARE_DMAP(g *(0.5f * (pare_expm1f(x) - pare_expm1f(-x))))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, cosh(x)))

const struct pare_op pare_op_cosh = {
    .type = "Cosh",
    .doc = "Hyperbolic cosine.",
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
