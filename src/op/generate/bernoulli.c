/* bernoulli.c - Bernoulli: 1 with the probability that the input gives, else 0. */
#include "random_family.h"

static const struct pare_opt bernoulli_attrs[] = {
    PARE_RANDOM_DTYPE(0),
    PARE_RANDOM_SEED,
    PARE_OPT_END,
};

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t count = pare_numel(x);
    size_t size = pare_dtype_size(y->dtype);
    uint64_t state = pare_random_start(n);

    (void)c;
    for (int64_t i = 0; i < count; i++) {
        double v = pare_random_uniform(&state) < pare_get(x, i);

        PARE_TRY(pare_convert(y->dtype, (char *)y->data + (size_t)i * size, PARE_F64, &v, 1, err));
    }
    return 0;
}

const struct pare_op pare_op_bernoulli = {
    .type = "Bernoulli",
    .doc = "Random ones and zeros with given probabilities.",
    .since = 15,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = bernoulli_attrs,
    .attr_size = sizeof(struct pare_random),
    .flags = PARE_OP_RANDOM | PARE_OP_STEPS,
    .infer = pare_random_infer,
    .forward = forward,
};
