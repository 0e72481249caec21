/* ceil.c - Ceil: round up to an integer. */
#include "elementwise.h"

PARE_MAP(ceilf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, ceil(x)))

const struct pare_op pare_op_ceil = {
    PARE_STEP_OP("Ceil", 6, "Round up."),
    .types = PARE_T_FLOATS,
};
