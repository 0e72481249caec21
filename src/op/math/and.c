/* and.c - And: y = a & b of bools, broadcast. */
#include "elementwise.h"

PARE_BINARY(PARE_LOOP2(PARE_BOOL, uint8_t, uint8_t, a &b))

const struct pare_op pare_op_and = {
    PARE_LOGIC_OP("And", 7, "Logical and.", "BB"),
    .types = PARE_T(PARE_BOOL),
};
