/* tanh.c - Tanh: y = tanh(x). */
#include "../math/elementwise.h"

PARE_MAP(pare_tanhf(x))
PARE_DMAP(g *(1 - y * y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, tanh(x)))

const struct pare_op pare_op_tanh = {
    PARE_UNARY_OP("Tanh", 6, "Hyperbolic tangent."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_BY_Y,
};
