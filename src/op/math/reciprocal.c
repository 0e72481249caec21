/* reciprocal.c - Reciprocal: y = 1 / x. */
#include "elementwise.h"

PARE_MAP(1 / x)
PARE_DMAP(-g *y *y)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, 1 / x))

const struct pare_op pare_op_reciprocal = {
    PARE_UNARY_OP("Reciprocal", 6, "1 / x."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_BY_Y | PARE_OP_WIDE,
};
