/* div.c - Div: y = a / b, broadcast. */
#include "elementwise.h"

/* Integers truncate toward zero.  Division by zero gives 0, and the smallest integer by -1 wraps
 * around, as in numpy. */
#define UNSIGNED(dtype, type) PARE_LOOP2(dtype, type, type, b ? a / b : 0)
#define SIGNED(dtype, type) \
    PARE_LOOP2(dtype, type, type, b == -1 ? 0 - (uint64_t)a : b ? (uint64_t)(a / b) : 0)

PARE_MAP2(a / b)
PARE_DMAP2(g / b, -g *(a / b / b))
PARE_BINARY(PARE_LOOP2(PARE_F64, double, double, a / b) UNSIGNED(PARE_U8, uint8_t)
                UNSIGNED(PARE_U16, uint16_t) UNSIGNED(PARE_U32, uint32_t)
                    UNSIGNED(PARE_U64, uint64_t) SIGNED(PARE_I8, int8_t) SIGNED(PARE_I16, int16_t)
                        SIGNED(PARE_I32, int32_t) SIGNED(PARE_I64, int64_t))

const struct pare_op pare_op_div = {
    PARE_ARITHMETIC_OP("Div", 6, "Elementwise quotient."),
    .types = PARE_T_NUMERIC,
};
