/* thresholded_relu.c - ThresholdedRelu: y = x where x > alpha, else 0. */
#include "../math/elementwise.h"

struct thresholded_relu {
    double alpha;
};

static const struct pare_opt thresholded_relu_attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct thresholded_relu, alpha), "the threshold", 1, PARE_NO_MIN,
               PARE_NO_MAX),
    PARE_OPT_END
};

static inline double alpha(const struct pare_node *n)
{
    return ((const struct thresholded_relu *)n->attr)->alpha;
}

PARE_MAP_WITH(x > a ? x : 0, const float a = (float)alpha(n))
PARE_DMAP_WITH(x > a ? g : 0, const float a = (float)alpha(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x > alpha(n) ? x : 0))

const struct pare_op pare_op_thresholded_relu = {
    PARE_UNARY_OP("ThresholdedRelu", 10, "Replace values up to a threshold by zero."),
    .types = PARE_T_FLOATS,
    .attrs = thresholded_relu_attrs,
    .attr_size = sizeof(struct thresholded_relu),
};
