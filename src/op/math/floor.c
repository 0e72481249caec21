/* floor.c - Floor: the next whole number downwards. */
#include "elementwise.h"

PARE_MAP(floorf(x))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, floor(x)))

const struct pare_op pare_op_floor = {
    .type = "Floor",
    .doc = "Round down.",
    .since = 6,
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
