/* swish.c - Swish: y = x / (1 + exp(-alpha x)). */
#include "../math/elementwise.h"

struct swish {
    double alpha;
};

static const struct pare_opt swish_attrs[] = { PARE_FLOAT("alpha", offsetof(struct swish, alpha),
                                                          "slope of the sigmoid", 1, PARE_NO_MIN,
                                                          PARE_NO_MAX),
                                               PARE_OPT_END };

static inline double alpha(const struct pare_node *n)
{
    return ((const struct swish *)n->attr)->alpha;
}

PARE_MAP_WITH(x *pare_sigmoidf(a *x), const float a = (float)alpha(n))
PARE_DMAP_WITH(g *(pare_sigmoidf(a *x) + a * y * pare_sigmoidf(-a * x)),
               const float a = (float)alpha(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x / (1 + exp(-alpha(n) * x))))

const struct pare_op pare_op_swish = {
    PARE_UNARY_OP("Swish", 24, "x times the sigmoid of alpha x."),
    .types = PARE_T_FLOATS,
    .attrs = swish_attrs,
    .attr_size = sizeof(struct swish),
};
