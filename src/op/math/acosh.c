/* acosh.c - Acosh: y = acosh(x). */
#include "elementwise.h"

PARE_MAP_CALL(acoshf(x))
PARE_DMAP(g / sqrtf((x - 1) * (x + 1)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, acosh(x)))

const struct pare_op pare_op_acosh = {
    .type = "Acosh",
    .doc = "Inverse hyperbolic cosine.",
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
