/* less.c - Less: whether a < b, broadcast. */
#include "elementwise.h"

#define LOOP(dtype, type) PARE_LOOP2(dtype, type, uint8_t, a < b)

PARE_BINARY(PARE_NUMERIC_TYPES(LOOP))

const struct pare_op pare_op_less = {
    PARE_COMPARE_OP("Less", 7, "True where a < b."),
    .types = PARE_T_NUMERIC,
};
