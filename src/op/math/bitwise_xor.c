/* bitwise_xor.c - BitwiseXor: y = a ^ b, broadcast. */
#include "elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, a ^ b)

PARE_BINARY(PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_bitwise_xor = {
    PARE_LOGIC_OP("BitwiseXor", 18, "Bitwise exclusive or.", "TT"),
    .types = PARE_T_INTS,
};
