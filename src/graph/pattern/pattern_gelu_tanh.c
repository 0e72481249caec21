/* pattern_gelu_tanh.c - Gelu's approximation: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. */
#include "../../op/op.h"
#include "pattern.h"

const struct pare_pattern pare_pattern_gelu_tanh = {
    .name = "gelu_tanh",
    .kind = PARE_PATTERN_POINTWISE,
    .op = &pare_op_gelu,
    .version = 20,
    .setting = { .name = "approximate", .type = PARE_OPT_STR, .str = "tanh" },
};
