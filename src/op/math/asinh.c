/* asinh.c - Asinh: y = asinh(x). */
#include "elementwise.h"

PARE_MAP_CALL(asinhf(x))
PARE_DMAP(g / sqrtf(1 + x * x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, asinh(x)))

const struct pare_op pare_op_asinh = {
    PARE_UNARY_OP("Asinh", 9, "Inverse hyperbolic sine."),
    .types = PARE_T_FLOATS,
};
