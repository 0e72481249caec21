/* mul.c - Mul: y = a b, broadcast. */
#include "elementwise.h"

/* In uint64: overflow wraps around, whatever the width. */
#define WHOLE(dtype, type) PARE_LOOP2(dtype, type, type, (uint64_t)a *(uint64_t)b)

PARE_MAP2(a *b)
PARE_DMAP2(g *b, g *a)
PARE_BINARY(PARE_LOOP2(PARE_F64, double, double, a *b) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_mul = {
    PARE_ARITHMETIC_OP("Mul", 6, "Elementwise product."),
    .types = PARE_T_NUMERIC,
};
