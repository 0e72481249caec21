/* hard_sigmoid.c - HardSigmoid: y = max(0, min(1, alpha x + beta)). */
#include "../math/elementwise.h"

struct hard_sigmoid {
    double alpha, beta;
};

static const struct pare_opt hard_sigmoid_attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct hard_sigmoid, alpha), "slope", 0.2, PARE_NO_MIN,
               PARE_NO_MAX),
    PARE_FLOAT("beta", offsetof(struct hard_sigmoid, beta), "value at 0", 0.5, PARE_NO_MIN,
               PARE_NO_MAX),
    PARE_OPT_END
};

static inline double alpha(const struct pare_node *n)
{
    return ((const struct hard_sigmoid *)n->attr)->alpha;
}

static inline double beta(const struct pare_node *n)
{
    return ((const struct hard_sigmoid *)n->attr)->beta;
}

#define UNIT(v) ((v) < 0 ? 0 : (v) > 1 ? 1 : (v))

PARE_MAP_WITH(UNIT(a *x + b), const float a = (float)alpha(n), b = (float)beta(n))
PARE_DMAP_WITH(a *x + b > 0 && a * x + b < 1 ? g * a : 0, const float a = (float)alpha(n),
               b = (float)beta(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, UNIT(alpha(n) * x + beta(n))))

const struct pare_op pare_op_hard_sigmoid = {
    PARE_UNARY_OP("HardSigmoid", 6, "A linear function clamped to [0, 1]."),
    .types = PARE_T_FLOATS,
    .attrs = hard_sigmoid_attrs,
    .attr_size = sizeof(struct hard_sigmoid),
    .torch = "Hardsigmoid",
};
