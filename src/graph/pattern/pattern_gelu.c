/* pattern_gelu.c - Gelu written with Erf: x (1 + erf(x / sqrt 2)) / 2, factors in any order. */
#include "../../op/op.h"
#include "pattern.h"

const struct pare_pattern pare_pattern_gelu = {
    .name = "gelu",
    .kind = PARE_PATTERN_POINTWISE,
    .op = &pare_op_gelu,
    .version = 20,
};
