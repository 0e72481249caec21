/* bitwise_or.c - BitwiseOr: y = a | b, broadcast. */
#include "elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, a | b)

PARE_BINARY(PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_bitwise_or = {
    PARE_LOGIC_OP("BitwiseOr", 18, "Bitwise or.", "TT"),
    .types = PARE_T_INTS,
};
