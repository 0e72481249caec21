/* acosh.c - Acosh: y = acosh(x). */
#include "elementwise.h"

PARE_MAP_CALL(acoshf(x))
PARE_DMAP(g / sqrtf((x - 1) * (x + 1)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, acosh(x)))

const struct pare_op pare_op_acosh = {
    PARE_UNARY_OP("Acosh", 9, "Inverse hyperbolic cosine."),
    .types = PARE_T_FLOATS,
};
