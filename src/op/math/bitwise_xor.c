/* bitwise_xor.c - BitwiseXor: y = a ^ b, bit by bit, broadcast as numpy does. */
#include "elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, a ^ b)

PARE_BINARY(PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_bitwise_xor = {
    .type = "BitwiseXor",
    .doc = "Bitwise exclusive or.",
    .since = 18,
    .in = "TT",
    .types = PARE_T_INTS,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_broadcast,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
