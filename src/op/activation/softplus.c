/* softplus.c - Softplus: y = log(1 + exp(x)). */
#include "../math/elementwise.h"

PARE_MAP(pare_softplusf(x))
PARE_DMAP(g *pare_sigmoidf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, (x > 0 ? x : 0) + log1p(exp(-fabs(x)))))

const struct pare_op pare_op_softplus = {
    PARE_UNARY_OP("Softplus", 1, "Smooth approximation of Relu."),
    .types = PARE_T_FLOATS,
};
