/* exp.c - Exp: y = exp(x). */
#include "elementwise.h"

PARE_MAP(pare_expf(x))
PARE_DMAP(g *y)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, exp(x)))

const struct pare_op pare_op_exp = {
    PARE_UNARY_OP("Exp", 6, "Exponential."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_BY_Y | PARE_OP_WIDE,
};
