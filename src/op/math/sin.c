/* sin.c - Sin: y = sin(x). */
#include "elementwise.h"

PARE_MAP_CALL(sinf(x))
PARE_DMAP_CALL(g *cosf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, sin(x)))

const struct pare_op pare_op_sin = {
    PARE_UNARY_OP("Sin", 7, "Sine."),
    .types = PARE_T_FLOATS,
};
