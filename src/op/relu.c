/* relu.c - Relu: y = max(x, 0). */
#include "op.h"

PARE_SIMD static void map(const struct pare_node *n, const float *x, float *y, int64_t count)
{
    (void)n;
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0 : x[i];     /* NaN passes */
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t count = pare_numel(x);

    switch ((int)x->dtype) {
#define LOOP(d, ctype)                                                                         \
    case d:                                                                                    \
        for (int64_t i = 0; i < count; i++)                                                    \
            ((ctype *)y->data)[i] = ((ctype *)x->data)[i] > 0 ? ((ctype *)x->data)[i] : 0;     \
        return 0;
        LOOP(PARE_F64, double) LOOP(PARE_I8, int8_t) LOOP(PARE_I16, int16_t)
        LOOP(PARE_I32, int32_t) LOOP(PARE_I64, int64_t)
#undef LOOP
    default: return pare_forward_map(n, c, err);
    }
}

const struct pare_op pare_op_relu = {
    .abi = PARE_ABI,
    .type = "Relu",
    .doc = "Negative values become zero.",
    .since = 6,
    .in = "T",
    .types = PARE_T_FLOATS | PARE_T(PARE_I8) | PARE_T(PARE_I16) | PARE_T(PARE_I32) |
             PARE_T(PARE_I64),
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_same,
    .forward = forward,
    .ties = pare_ties_elementwise,
    .map = map,
};
