/* sub.c - Sub: y = a - b, broadcast. */
#include "elementwise.h"

/* In uint64: overflow wraps around, whatever the width. */
#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, (uint64_t)a - (uint64_t)b)

PARE_MAP2(a - b)
PARE_DMAP2(g, -g)
PARE_BINARY(PARE_LOOP2(PARE_F64, double, double, a - b) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_sub = {
    PARE_ARITHMETIC_OP("Sub", 6, "Elementwise difference."),
    .types = PARE_T_NUMERIC,
    .flags = PARE_OP_LINEAR,
};
