/* greater.c - Greater: whether a > b, broadcast. */
#include "elementwise.h"

#define LOOP(dtype, type) PARE_LOOP2(dtype, type, uint8_t, a > b)

PARE_BINARY(PARE_NUMERIC_TYPES(LOOP))

const struct pare_op pare_op_greater = {
    PARE_COMPARE_OP("Greater", 7, "True where a > b."),
    .types = PARE_T_NUMERIC,
};
