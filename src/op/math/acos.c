/* acos.c - Acos: y = acos(x). */
#include "elementwise.h"

PARE_MAP_CALL(acosf(x))
PARE_DMAP(-g / sqrtf((1 - x) * (1 + x)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, acos(x)))

const struct pare_op pare_op_acos = {
    PARE_UNARY_OP("Acos", 7, "Inverse cosine."),
    .types = PARE_T_FLOATS,
};
