/* or.c - Or: y = a | b of bools, broadcast. */
#include "elementwise.h"

PARE_BINARY(PARE_LOOP2(PARE_BOOL, uint8_t, uint8_t, a | b))

const struct pare_op pare_op_or = {
    PARE_LOGIC_OP("Or", 7, "Logical or.", "BB"),
    .types = PARE_T(PARE_BOOL),
};
