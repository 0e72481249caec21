/* hard_swish.c - HardSwish: y = x max(0, min(1, x / 6 + 1/2)). */
#include "../math/elementwise.h"

#define UNIT(v) ((v) < 0 ? 0 : (v) > 1 ? 1 : (v))

PARE_MAP(x *UNIT(x *(1 / 6.0f) + 0.5f))
PARE_DMAP(x < -3 ? 0 : x <= 3 ? g * (x * (1 / 3.0f) + 0.5f) : g)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x *UNIT(x / 6 + 0.5)))

const struct pare_op pare_op_hard_swish = {
    PARE_UNARY_OP("HardSwish", 14, "x times a linear function clamped to [0, 1]."),
    .types = PARE_T_FLOATS,
    .torch = "Hardswish",
};
