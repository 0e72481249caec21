/* asin.c - Asin: y = asin(x). */
#include "elementwise.h"

PARE_MAP_CALL(asinf(x))
PARE_DMAP(g / sqrtf((1 - x) * (1 + x)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, asin(x)))

const struct pare_op pare_op_asin = {
    PARE_UNARY_OP("Asin", 7, "Inverse sine."),
    .types = PARE_T_FLOATS,
};
