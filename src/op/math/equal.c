/* equal.c - Equal: whether a == b, broadcast. */
#include "elementwise.h"

#define LOOP(dtype, type) PARE_LOOP2(dtype, type, uint8_t, a == b)

static bool same(struct pare_str a, struct pare_str b)
{
    return a.len == b.len && (!a.len || !memcmp(a.s, b.s, a.len));
}

PARE_BINARY(PARE_NUMERIC_TYPES(LOOP) LOOP(PARE_BOOL, uint8_t)
                PARE_LOOP2(PARE_STR, struct pare_str, uint8_t, same(a, b)))

const struct pare_op pare_op_equal = {
    PARE_COMPARE_OP("Equal", 7, "True where a equals b."),
    .types = PARE_T_NUMERIC | PARE_T(PARE_BOOL) | PARE_T(PARE_STR),
};
