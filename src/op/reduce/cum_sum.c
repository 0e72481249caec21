/* cum_sum.c - CumSum: y[i] = x[0] + ... + x[i] along an axis. */
#include "lanes.h"

enum { X, AXIS };

struct cumsum {
    int64_t exclusive, reverse;
};

static const struct pare_opt cumsum_attrs[] = {
    PARE_INT("exclusive", offsetof(struct cumsum, exclusive), "exclude the element itself", 0,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("reverse", offsetof(struct cumsum, reverse), "sum from the end", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    if (pare_numel(&n->in[AXIS]->t) != 1)
        return pare_fail(err, PARE_ESHAPE, "axis has %lld elements, one is expected",
                         (long long)pare_numel(&n->in[AXIS]->t));
    return pare_infer_same(n, err);
}

/* Floats are summed in float64; integers wrap around in uint64. */
#define LANE(d, type, sum_type)                                            \
    case d: {                                                              \
        sum_type sum = 0;                                                  \
                                                                           \
        for (int64_t k = 0; k < l->len; k++) {                             \
            int64_t i = at + (a->reverse ? l->len - 1 - k : k) * l->inner; \
            sum_type v = (sum_type)((const type *)x->data)[i];             \
                                                                           \
            ((type *)y->data)[i] = (type)(a->exclusive ? sum : sum + v);   \
            sum += v;                                                      \
        }                                                                  \
        break;                                                             \
    }
#define FLOAT_LANE(d, type) LANE(d, type, double)
#define INT_LANE(d, type) LANE(d, type, uint64_t)

static void lane(const struct pare_node *n, const struct pare_lanes *l, int64_t at)
{
    const struct cumsum *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t, *y = &n->out[0]->t;

    switch ((int)x->dtype) {
        PARE_FLOAT_TYPES(FLOAT_LANE)
        PARE_INT_TYPES(INT_LANE)
    default: break;
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t;
    struct pare_lanes l;
    int axis;

    (void)c;
    PARE_TRY(pare_axis(pare_get_int(&n->in[AXIS]->t, 0), x->rank, &axis, err));
    l = pare_lanes(x, axis, axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++)
            lane(n, &l, o * l.len * l.inner + i);
    return 0;
}

/* gx[i] is the sum of the gy of sums that include x[i]: CumSum in the other direction. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct cumsum *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[X]->grad);
    struct pare_lanes l;
    int axis;

    (void)c;
    if (!gx || !gy)
        return 0;
    PARE_TRY(pare_axis(pare_get_int(&n->in[AXIS]->t, 0), x->rank, &axis, err));
    l = pare_lanes(x, axis, axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            double sum = 0;

            for (int64_t k = 0; k < l.len; k++) {
                int64_t at = (o * l.len + (a->reverse ? k : l.len - 1 - k)) * l.inner + i;
                double v = (double)gy[at];

                gx[at] += (float)(a->exclusive ? sum : sum + v);
                sum += v;
            }
        }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    struct pare_err err;
    int axis;

    if (!n->in[AXIS]->t.data ||
        pare_axis(pare_get_int(&n->in[AXIS]->t, 0), n->in[X]->t.rank, &axis, &err))
        return;
    pare_ties_except(n, 1u << axis, t);
}

const struct pare_op pare_op_cum_sum = {
    .type = "CumSum",
    .doc = "Running sum along an axis.",
    .since = 11,
    .in = "TI",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .attrs = cumsum_attrs,
    .attr_size = sizeof(struct cumsum),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .constant_channel = pare_constant_channel_zero,
    .flags = PARE_OP_FLOAT_ONLY,
};
