/* cos.c - Cos: y = cos(x). */
#include "elementwise.h"

PARE_MAP_CALL(cosf(x))
PARE_DMAP_CALL(-g *sinf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, cos(x)))

const struct pare_op pare_op_cos = {
    PARE_UNARY_OP("Cos", 7, "Cosine."),
    .types = PARE_T_FLOATS,
};
