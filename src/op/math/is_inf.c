/* is_inf.c - IsInf: whether x is infinite. */
#include "elementwise.h"

struct is_inf {
    int64_t negative, positive;
};

static const struct pare_opt is_inf_attrs[] = {
    PARE_INT("detect_negative", offsetof(struct is_inf, negative), "minus infinity counts", 1, 0,
             1),
    PARE_INT("detect_positive", offsetof(struct is_inf, positive), "plus infinity counts", 1, 0, 1),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_infer_same(n, err));
    n->out[0]->t.dtype = PARE_BOOL;
    return 0;
}

static bool is_counted(const struct pare_node *n, double x)
{
    const struct is_inf *a = n->attr;

    return isinf(x) && (x < 0 ? a->negative : a->positive);
}

PARE_UNARY(PARE_LOOP1(PARE_F32, float, uint8_t, is_counted(n, (double)x))
               PARE_LOOP1(PARE_F64, double, uint8_t, is_counted(n, x)))

const struct pare_op pare_op_is_inf = {
    .type = "IsInf",
    .doc = "True where a value is infinite.",
    .since = 10,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .attrs = is_inf_attrs,
    .attr_size = sizeof(struct is_inf),
    .infer = infer,
    .forward = forward,
    .ties = pare_ties_elementwise,
    .flags = PARE_OP_FLOAT_ONLY,
};
