/* acos.c - Acos: y = acos(x). */
#include "elementwise.h"

PARE_MAP_CALL(acosf(x))
PARE_DMAP(-g / sqrtf((1 - x) * (1 + x)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, acos(x)))

const struct pare_op pare_op_acos = {
    .type = "Acos",
    .doc = "Inverse cosine.",
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
