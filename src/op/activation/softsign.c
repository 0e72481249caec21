/* softsign.c - Softsign: y = x / (1 + |x|). */
#include "../math/elementwise.h"

PARE_MAP(x / (1 + fabsf(x)))
PARE_DMAP(g / ((1 + fabsf(x)) * (1 + fabsf(x))))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x / (1 + fabs(x))))

const struct pare_op pare_op_softsign = {
    PARE_UNARY_OP("Softsign", 1, "x / (1 + |x|)."),
    .types = PARE_T_FLOATS,
};
