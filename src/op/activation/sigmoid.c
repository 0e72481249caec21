/* sigmoid.c - Sigmoid: y = 1 / (1 + exp(-x)). */
#include "../math/elementwise.h"

PARE_MAP(pare_sigmoidf(x))
PARE_DMAP(g *y *(1 - y))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, 1 / (1 + exp(-x))))

const struct pare_op pare_op_sigmoid = {
    PARE_UNARY_OP("Sigmoid", 6, "Logistic function."),
    .types = PARE_T_FLOATS,
    .flags = PARE_OP_BY_Y | PARE_OP_SIGMOID,
};
