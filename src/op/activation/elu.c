/* elu.c - Elu: y = x, or alpha (exp(x) - 1) where x < 0. */
#include "../math/elementwise.h"

struct elu {
    double alpha;
};

static const struct pare_opt elu_attrs[] = { PARE_FLOAT("alpha", offsetof(struct elu, alpha),
                                                        "limit for large negative values is -alpha",
                                                        1, PARE_NO_MIN, PARE_NO_MAX),
                                             PARE_OPT_END };

static inline double alpha(const struct pare_node *n)
{
    return ((const struct elu *)n->attr)->alpha;
}

PARE_MAP_WITH(x < 0 ? a * pare_expm1f(x) : x, const float a = (float)alpha(n))
PARE_DMAP_WITH(x > 0 ? g : g * (y + a), const float a = (float)alpha(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x < 0 ? alpha(n) * expm1(x) : x))

const struct pare_op pare_op_elu = {
    PARE_UNARY_OP("Elu", 6, "Exponential linear unit."),
    .types = PARE_T_FLOATS,
    .attrs = elu_attrs,
    .attr_size = sizeof(struct elu),
    .torch = "ELU",
};
