/* log.c - Log: y = log(x). */
#include "elementwise.h"

PARE_MAP(pare_logf(x))
PARE_DMAP(g / x)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, log(x)))

const struct pare_op pare_op_log = {
    .type = "Log",
    .doc = "Natural logarithm.",
    .since = 6,
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
