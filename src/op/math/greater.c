/* greater.c - Greater: where a > b, broadcast as numpy does. */
#include "elementwise.h"

#define LOOP(dtype, type) PARE_LOOP2(dtype, type, uint8_t, a > b)

PARE_BINARY(PARE_NUMERIC_TYPES(LOOP))

const struct pare_op pare_op_greater = {
    .type = "Greater",
    .doc = "True where a > b.",
    .since = 7,
    .in = "TT",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_compare,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
