/* sqrt.c - Sqrt: y = sqrt(x). */
#include "elementwise.h"

PARE_MAP(sqrtf(x))
PARE_DMAP(g / (2 * y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, sqrt(x)))

const struct pare_op pare_op_sqrt = {
    PARE_UNARY_OP("Sqrt", 6, "Square root."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_BY_Y,
};
