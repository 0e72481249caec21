/* rms_normalization.c - RMSNormalization: y = x / sqrt(mean of x^2 + epsilon) * scale. */
#include "rms_family.h"

const struct pare_op pare_op_rms_normalization = {
    .type = "RMSNormalization",
    .since = 23,
    .max_out = 1,
    PARE_RMS_MEMBERS,
};
