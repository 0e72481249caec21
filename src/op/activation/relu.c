/* relu.c - Relu: y = max(x, 0); NaN stays NaN. */
#include "../math/elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP1(dtype, type, type, x > 0 ? x : 0)

PARE_MAP(x < 0 ? 0 : x)
PARE_DMAP(y > 0 ? g : 0)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x < 0 ? 0 : x) WHOLE(PARE_I8, int8_t)
               WHOLE(PARE_I16, int16_t) WHOLE(PARE_I32, int32_t) WHOLE(PARE_I64, int64_t))

static bool clamp(const struct pare_node *n, double *lo, double *hi)
{
    (void)n;
    *lo = 0;
    *hi = INFINITY;
    return true;
}

const struct pare_op pare_op_relu = {
    PARE_UNARY_OP("Relu", 6, "Replace negative values by zero."),
    .types = PARE_T_FLOATS | PARE_T(PARE_I8) | PARE_T(PARE_I16) | PARE_T(PARE_I32) |
             PARE_T(PARE_I64),
    .flags = PARE_OP_BY_Y | PARE_OP_HOMOGENEOUS | PARE_OP_FUSED_ACT,
    .torch = "ReLU",
    .clamp = clamp,
};
