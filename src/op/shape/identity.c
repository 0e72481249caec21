/* identity.c - Identity: the input, unchanged. */
#include "../op.h"

const struct pare_op pare_op_identity = {
    .type = "Identity",
    .doc = "The input, unchanged.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_VIEW | PARE_OP_HOMOGENEOUS | PARE_OP_PASSES | PARE_OP_COPIES,
    .int8_since = 1,
    .infer = pare_infer_same,
    .forward = pare_forward_copy,
    .backward = pare_backward_copy,
    .ties = pare_ties_elementwise,
    .constant_channel = pare_constant_channel_same,
};
