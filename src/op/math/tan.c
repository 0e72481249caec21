/* tan.c - Tan: y = tan(x). */
#include "elementwise.h"

PARE_MAP_CALL(tanf(x))
PARE_DMAP(g *(1 + y * y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, tan(x)))

const struct pare_op pare_op_tan = {
    PARE_UNARY_OP("Tan", 7, "Tangent."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_WIDE,
};
