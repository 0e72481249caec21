/* abs.c - Abs: y = |x|. */
#include "elementwise.h"

/* In uint64, where the smallest int64 has a negative. */
#define WHOLE(dtype, type) PARE_LOOP1(dtype, type, type, x > 0 ? (uint64_t)x : 0 - (uint64_t)x)

PARE_MAP(fabsf(x))
PARE_DMAP(x > 0 ? g : x < 0 ? -g : 0)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, fabs(x)) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_abs = {
    PARE_UNARY_OP("Abs", 6, "Absolute value."),
    .types = PARE_T_NUMERIC,
};
