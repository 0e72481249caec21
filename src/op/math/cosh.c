/* cosh.c - Cosh: y = cosh(x). */
#include "elementwise.h"

PARE_MAP_CALL(coshf(x))
PARE_DMAP(g *(0.5f * (pare_expm1f(x) - pare_expm1f(-x))))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, cosh(x)))

const struct pare_op pare_op_cosh = {
    PARE_UNARY_OP("Cosh", 9, "Hyperbolic cosine."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_WIDE,
};
