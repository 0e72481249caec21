/* round.c - Round: the nearest whole number, the even one of two. */
#include "elementwise.h"

PARE_MAP(rintf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, rint(x)))

const struct pare_op pare_op_round = {
    .type = "Round",
    .doc = "Round half to even.",
    .since = 11,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_same,
    .forward = forward,
    .backward = pare_backward_zero,
    .ties = pare_ties_elementwise,
    .map = map,
};
