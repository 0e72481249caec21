/* atanh.c - Atanh: y = atanh(x). */
#include "elementwise.h"

PARE_MAP_CALL(atanhf(x))
PARE_DMAP(g / ((1 - x) * (1 + x)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, atanh(x)))

const struct pare_op pare_op_atanh = {
    PARE_UNARY_OP("Atanh", 9, "Inverse hyperbolic tangent."),
    .types = PARE_T_FLOATS,
};
