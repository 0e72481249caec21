/* not.c - Not: y = !x. */
#include "elementwise.h"

PARE_UNARY(PARE_LOOP1(PARE_BOOL, uint8_t, uint8_t, !x))

const struct pare_op pare_op_not = {
    .type = "Not",
    .doc = "Logical negation.",
    .since = 1,
    .in = "B",
    .types = PARE_T(PARE_BOOL),
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_same,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
