/* bitwise_and.c - BitwiseAnd: y = a & b, broadcast. */
#include "elementwise.h"

#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, a &b)

PARE_BINARY(PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_bitwise_and = {
    PARE_LOGIC_OP("BitwiseAnd", 18, "Bitwise and.", "TT"),
    .types = PARE_T_INTS,
};
