/* is_nan.c - IsNaN: whether x is not a number. */
#include "elementwise.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_infer_same(n, err));
    n->out[0]->t.dtype = PARE_BOOL;
    return 0;
}

PARE_UNARY(PARE_LOOP1(PARE_F32, float, uint8_t, x != x)
               PARE_LOOP1(PARE_F64, double, uint8_t, x != x))

const struct pare_op pare_op_is_nan = {
    .type = "IsNaN",
    .doc = "True where a value is not a number.",
    .since = 9,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
