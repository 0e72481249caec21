/* add.c - Add: y = a + b, broadcast as numpy does. */
#include "op.h"

PARE_SIMD static void map2(const struct pare_node *n, const float *a, int sa, const float *b,
                           int sb, float *y, int64_t count)
{
    (void)n;
    if (sa && sb)
        for (int64_t i = 0; i < count; i++)
            y[i] = a[i] + b[i];
    else if (sa)
        for (int64_t i = 0; i < count; i++)
            y[i] = a[i] + b[0];
    else
        for (int64_t i = 0; i < count; i++)
            y[i] = a[0] + b[i * sb];
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *in[2] = { &n->in[0]->t, &n->in[1]->t }, *y = &n->out[0]->t;
    int64_t count = pare_numel(y);
    struct pare_walk w;

    if (y->dtype == PARE_F32)
        return pare_forward_map2(n, c, err);
    pare_walk_start(&w, y, in, 2);
    switch ((int)y->dtype) {
#define LOOP(d, ctype)                                                                         \
    case d:                                                                                    \
        for (int64_t i = 0; i < count; i++, pare_walk_next(&w))                                \
            ((ctype *)y->data)[i] = (ctype)(((ctype *)in[0]->data)[w.at[0]] +                  \
                                            ((ctype *)in[1]->data)[w.at[1]]);                  \
        break;
        PARE_NUMERIC_TYPES(LOOP)
#undef LOOP
    default: break;
    }
    return 0;
}

const struct pare_op pare_op_add = {
    .abi = PARE_ABI,
    .type = "Add",
    .doc = "Elementwise sum.",
    .since = 7,
    .in = "TT",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_broadcast,
    .forward = forward,
    .ties = pare_ties_elementwise,
    .map2 = map2,
};
