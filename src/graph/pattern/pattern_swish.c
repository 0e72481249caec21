/* pattern_swish.c - Swish (SiLU) written with Sigmoid: x sigmoid(alpha x). */
#include <math.h>

#include "../../op/op.h"
#include "pattern.h"

/* y = sigmoid(alpha) at 1. */
static double fit_alpha(double y)
{
    double alpha = y > 0 && y < 1 ? log(y / (1 - y)) : 1, near = round(1000 * alpha) / 1000;

    return fabs(near - alpha) < 1e-5 ? near : alpha;
}

const struct pare_pattern pare_pattern_swish = {
    .name = "swish",
    .kind = PARE_PATTERN_POINTWISE,
    .op = &pare_op_swish,
    .version = 24,
    .setting = { .name = "alpha", .type = PARE_OPT_FLOAT },
    .fit = fit_alpha,
};
