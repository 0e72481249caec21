/* log.c - Log: y = log(x). */
#include "elementwise.h"

PARE_MAP(pare_logf(x))
PARE_DMAP(g / x)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, log(x)))

const struct pare_op pare_op_log = {
    PARE_UNARY_OP("Log", 6, "Natural logarithm."),
    .types = PARE_T_FLOATS,
};
