/* asin.c - Asin: y = asin(x). */
#include "elementwise.h"

PARE_MAP_CALL(asinf(x))
PARE_DMAP(g / sqrtf((1 - x) * (1 + x)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, asin(x)))

const struct pare_op pare_op_asin = {
    .type = "Asin",
    .doc = "Inverse sine.",
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
