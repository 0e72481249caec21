/* bitwise_not.c - BitwiseNot: y = ~x. */
#include "elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP1(dtype, type, type, ~(uint64_t)x)

PARE_UNARY(PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_bitwise_not = {
    .type = "BitwiseNot",
    .doc = "Bitwise negation.",
    .since = 18,
    .in = "T",
    .types = PARE_T_INTS,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_same,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
