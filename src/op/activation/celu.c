/* celu.c - Celu: y = x, or alpha (exp(x / alpha) - 1) where x < 0. */
#include "../math/elementwise.h"

struct celu {
    double alpha;
};

static const struct pare_opt celu_attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct celu, alpha), "limit for large negative values is -alpha",
               1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static inline double alpha(const struct pare_node *n)
{
    return ((const struct celu *)n->attr)->alpha;
}

PARE_MAP_WITH(x < 0 ? a * pare_expm1f(x / a) : x, const float a = (float)alpha(n))
PARE_DMAP_WITH(x > 0 ? g : g * (y / a + 1), const float a = (float)alpha(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x < 0 ? alpha(n) * expm1(x / alpha(n)) : x))

const struct pare_op pare_op_celu = {
    PARE_UNARY_OP("Celu", 12, "Continuously differentiable exponential linear unit."),
    .types = PARE_T_FLOATS,
    .attrs = celu_attrs,
    .attr_size = sizeof(struct celu),
    .torch = "CELU",
    .flags = PARE_OP_FLOAT_ONLY,
};
