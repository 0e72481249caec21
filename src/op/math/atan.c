/* atan.c - Atan: y = atan(x). */
#include "elementwise.h"

PARE_MAP_CALL(atanf(x))
PARE_DMAP(g / (1 + x * x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, atan(x)))

const struct pare_op pare_op_atan = {
    PARE_UNARY_OP("Atan", 7, "Inverse tangent."),
    .types = PARE_T_FLOATS,
};
