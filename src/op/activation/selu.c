/* selu.c - Selu: y = gamma x, or gamma alpha (exp(x) - 1) where x < 0. */
#include "../math/elementwise.h"

struct selu {
    double alpha, gamma;
};

static const struct pare_opt selu_attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct selu, alpha),
               "limit for large negative values is -gamma alpha", 1.67326319217681884765625,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("gamma", offsetof(struct selu, gamma), "scale of the result",
               1.05070102214813232421875, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static inline double alpha(const struct pare_node *n)
{
    return ((const struct selu *)n->attr)->alpha;
}

static inline double gain(const struct pare_node *n)
{
    return ((const struct selu *)n->attr)->gamma;
}

PARE_MAP_WITH(g *(x < 0 ? a * pare_expm1f(x) : x), const float a = (float)alpha(n),
              g = (float)gain(n))
PARE_DMAP_WITH(x > 0 ? g * gamma : g * (y + low), const float gamma = (float)gain(n),
               low = (float)(gain(n) * alpha(n)))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, gain(n) * (x < 0 ? alpha(n) * expm1(x) : x)))

const struct pare_op pare_op_selu = {
    PARE_UNARY_OP("Selu", 6, "Scaled exponential linear unit."),
    .types = PARE_T_FLOATS,
    .attrs = selu_attrs,
    .attr_size = sizeof(struct selu),
    .torch = "SELU",
};
