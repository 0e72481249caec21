/* shrink.c - Shrink: y = x + bias below -lambd, x - bias above lambd, else 0. */
#include "../math/elementwise.h"

struct shrink {
    double bias, lambd;
};

static const struct pare_opt shrink_attrs[] = {
    PARE_FLOAT("bias", offsetof(struct shrink, bias), "amount by which large values move toward 0",
               0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("lambd", offsetof(struct shrink, lambd), "values of at most this magnitude become 0",
               0.5, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static inline double bias(const struct pare_node *n)
{
    return ((const struct shrink *)n->attr)->bias;
}

static inline double lambd(const struct pare_node *n)
{
    return ((const struct shrink *)n->attr)->lambd;
}

#define SHRINK(x, bias, lambd) ((x) < -(lambd) ? (x) + (bias) : (x) > (lambd) ? (x) - (bias) : 0)
#define WHOLE(dtype, type) \
    PARE_LOOP1(dtype, type, type, pare_whole(SHRINK((double)x, bias(n), lambd(n))))

PARE_MAP_WITH(SHRINK(x, b, l), const float b = (float)bias(n), l = (float)lambd(n))
PARE_DMAP_WITH(x<-l || x> l ? g : 0, const float l = (float)lambd(n))
PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, SHRINK(x, bias(n), lambd(n))) PARE_INT_TYPES(WHOLE))

const struct pare_op pare_op_shrink = {
    PARE_UNARY_OP("Shrink", 9, "Replace small values by zero and move others toward it."),
    .types = PARE_T_NUMERIC,
    .attrs = shrink_attrs,
    .attr_size = sizeof(struct shrink),
};
