/* mish.c - Mish: y = x tanh(log(1 + exp(x))). */
#include "../math/elementwise.h"

/* With e = exp(x), tanh(log(1 + e)) is m / (m + 2) where m = e (e + 2): no logarithm, and no
 * cancellation at either end.  It is 1 for x >= 20. */
static inline float mish(float x)
{
    float e = pare_expf(x > 20 ? 20 : x), m = e * (e + 2);

    return x * (m / (m + 2));
}

/* With t = tanh(log(1 + e)): t + x (1 - t^2) e / (1 + e), where 1 - t^2 = 4 (m + 1) / (m + 2)^2 and
 * m + 1 = (e + 1)^2. */
static inline float slope(float x)
{
    float e = pare_expf(x > 20 ? 20 : x), m = e * (e + 2);

    return m / (m + 2) + x * (e / (m + 2)) * (4 * (e + 1) / (m + 2));
}

PARE_MAP(mish(x))
PARE_DMAP(g *slope(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x *tanh((x > 0 ? x : 0) + log1p(exp(-fabs(x))))))

const struct pare_op pare_op_mish = {
    PARE_UNARY_OP("Mish", 18, "x tanh(softplus(x))."),
    .types = PARE_T_FLOATS,
};
