/* softsign.c - Softsign: y = x / (1 + |x|). */
#include "../math/elementwise.h"

PARE_MAP(x / (1 + fabsf(x)))
PARE_DMAP(g / ((1 + fabsf(x)) * (1 + fabsf(x))))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x / (1 + fabs(x))))

const struct pare_op pare_op_softsign = {
    .type = "Softsign",
    .doc = "A slow sigmoid from -1 to 1.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_same,
    .forward = forward,
    .backward = pare_backward_map,
    .ties = pare_ties_elementwise,
    .map = map,
    .dmap = dmap,
};
