/* neg.c - Neg: y = -x. */
#include "elementwise.h"

/* In uint64, where the smallest int64 has a negative. */
#define WHOLE(dtype, type) PARE_LOOP1(dtype, type, type, 0 - (uint64_t)x)

PARE_MAP(-x)
PARE_DMAP(-g)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, -x) WHOLE(PARE_I8, int8_t) WHOLE(PARE_I16, int16_t)
               WHOLE(PARE_I32, int32_t) WHOLE(PARE_I64, int64_t))

const struct pare_op pare_op_neg = {
    PARE_UNARY_OP("Neg", 6, "Change of sign."),
    .types = PARE_T_FLOATS | PARE_T(PARE_I8) | PARE_T(PARE_I16) | PARE_T(PARE_I32) |
             PARE_T(PARE_I64),
    .flags = PARE_OP_LINEAR,
};
