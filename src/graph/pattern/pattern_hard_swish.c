/* pattern_hard_swish.c - HardSwish written with HardSigmoid or Clip: x clip(x + 3, 0, 6) / 6. */
#include "../../op/op.h"
#include "pattern.h"

const struct pare_pattern pare_pattern_hard_swish = {
    .name = "hard_swish",
    .kind = PARE_PATTERN_POINTWISE,
    .op = &pare_op_hard_swish,
    .version = 14,
};
