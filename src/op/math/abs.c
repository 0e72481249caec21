/* abs.c - Abs: y = |x|. */
#include "elementwise.h"

/* In uint64, where the smallest number has a negative. */
#define WHOLE(dtype, type) PARE_LOOP1(dtype, type, type, x > 0 ? (uint64_t)x : 0 - (uint64_t)x)

PARE_MAP(fabsf(x))
PARE_DMAP(x > 0 ? g : x < 0 ? -g : 0)
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, fabs(x)) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_abs = {
    .type = "Abs",
    .doc = "Absolute value.",
    .since = 6,
    .in = "T",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_same,
    .forward = forward,
    .backward = pare_backward_map,
    .ties = pare_ties_elementwise,
    .map = map,
    .dmap = dmap,
};
