/* erf.c - Erf: y = erf(x). */
#include "../math/elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP1(dtype, type, type, erf((double)x))

PARE_MAP(pare_erff(x))
PARE_DMAP(g *(1.12837917f * pare_expf(-x * x)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, erf(x)) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_erf = {
    PARE_UNARY_OP("Erf", 9, "Error function."),
    .types = PARE_T_NUMERIC,
};
