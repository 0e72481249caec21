/* sinh.c - Sinh: y = sinh(x). */
#include "elementwise.h"

PARE_MAP_CALL(sinhf(x))
PARE_DMAP(g *(0.5f * (pare_expf(x) + pare_expf(-x))))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, sinh(x)))

const struct pare_op pare_op_sinh = {
    PARE_UNARY_OP("Sinh", 9, "Hyperbolic sine."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_WIDE,
};
