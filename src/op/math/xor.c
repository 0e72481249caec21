/* xor.c - Xor: y = a ^ b of truth values, broadcast as numpy does. */
#include "elementwise.h"

PARE_BINARY(PARE_LOOP2(PARE_BOOL, uint8_t, uint8_t, a ^ b))

const struct pare_op pare_op_xor = {
    .type = "Xor",
    .doc = "Logical exclusive or.",
    .since = 7,
    .in = "BB",
    .types = PARE_T(PARE_BOOL),
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_broadcast,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
