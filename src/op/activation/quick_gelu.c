/* quick_gelu.c - QuickGelu: y = x / (1 + exp(-alpha x)). */
#include "../math/elementwise.h"

struct quick_gelu {
    double alpha;
};

static const struct pare_opt quick_gelu_attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct quick_gelu, alpha), "slope of the sigmoid", 1.702,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static inline double alpha(const struct pare_node *n)
{
    return ((const struct quick_gelu *)n->attr)->alpha;
}

PARE_MAP_WITH(x *pare_sigmoidf(a *x), const float a = (float)alpha(n))
PARE_DMAP_WITH(g *(pare_sigmoidf(a *x) + a * y * pare_sigmoidf(-a * x)),
               const float a = (float)alpha(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x / (1 + exp(-alpha(n) * x))))

const struct pare_op pare_op_quick_gelu = {
    PARE_UNARY_OP("QuickGelu", 1, "Sigmoid approximation of Gelu."),
    .domain = "com.microsoft",
    .types = PARE_T_FLOATS,
    .attrs = quick_gelu_attrs,
    .attr_size = sizeof(struct quick_gelu),
};
