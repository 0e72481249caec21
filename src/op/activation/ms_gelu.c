/* ms_gelu.c - Gelu (com.microsoft): y = x P(N(0, 1) < x). */
#include "../math/elementwise.h"

PARE_MAP(pare_geluf(x))
PARE_DMAP(g *pare_gelu_slopef(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, 0.5 * x * erfc(-x * 0.70710678118654752)))

const struct pare_op pare_op_ms_gelu = {
    PARE_UNARY_OP("Gelu", 1, "Gaussian error linear unit."),
    .domain = "com.microsoft",
    .types = PARE_T_FLOATS,
    .torch = "GELU",
};
