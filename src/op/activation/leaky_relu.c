/* leaky_relu.c - LeakyRelu: y = x, or alpha x where x < 0. */
#include "../math/elementwise.h"

struct leaky_relu {
    double alpha;
};

static const struct pare_opt leaky_relu_attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct leaky_relu, alpha), "slope for negative values", 0.01,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static inline double alpha(const struct pare_node *n)
{
    return ((const struct leaky_relu *)n->attr)->alpha;
}

PARE_MAP_WITH(x < 0 ? a * x : x, const float a = (float)alpha(n))
PARE_DMAP_WITH(x > 0 ? g : a * g, const float a = (float)alpha(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x < 0 ? alpha(n) * x : x))

static double nni_ops(const struct pare_node *n)
{
    return (double)pare_numel(&n->in[0]->t);
}

const struct pare_op pare_op_leaky_relu = {
    PARE_UNARY_OP("LeakyRelu", 6, "Scale negative values by a slope."),
    .types = PARE_T_FLOATS,
    .attrs = leaky_relu_attrs,
    .attr_size = sizeof(struct leaky_relu),
    .flags = PARE_OP_HOMOGENEOUS | PARE_OP_FUSED_ACT,
    .torch = "LeakyReLU",
    .nni_ops = nni_ops,
};
