/* sign.c - Sign: y = -1, 0 or 1; NaN stays NaN. */
#include "elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP1(dtype, type, type, x > 0 ? 1 : x == 0 ? 0 : -1)

PARE_MAP(x > 0 ? 1 : x < 0 ? -1 : x)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x > 0 ? 1 : x < 0 ? -1 : x) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_sign = {
    PARE_STEP_OP("Sign", 9, "Sign: -1, 0 or 1."),
    .types = PARE_T_NUMERIC,
};
