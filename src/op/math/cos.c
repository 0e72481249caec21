/* cos.c - Cos: y = cos(x). */
#include "elementwise.h"

PARE_MAP_CALL(cosf(x))
PARE_DMAP_CALL(-g *sinf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, cos(x)))

const struct pare_op pare_op_cos = {
    .type = "Cos",
    .doc = "Cosine.",
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
