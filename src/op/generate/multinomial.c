/* multinomial.c - Multinomial: classes drawn with unnormalized log-probabilities. */
#include <math.h>

#include "random_family.h"

struct multinomial {
    struct pare_random random; /* pare_random_start() reads the seed */
    int64_t sample_size;
};

static const struct pare_opt attrs[] = { PARE_RANDOM_DTYPE(PARE_I32),
                                         PARE_INT("sample_size",
                                                  offsetof(struct multinomial, sample_size),
                                                  "number of draws per row", 1, 0, 1e15),
                                         PARE_RANDOM_SEED, PARE_OPT_END };

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct multinomial *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    char bx[PARE_SHAPE_TEXT];

    if (a->random.dtype != PARE_I32 && a->random.dtype != PARE_I64)
        return pare_fail(err, PARE_EUNSUPPORTED, "dtype is %lld, must be int32 or int64",
                         (long long)a->random.dtype);
    if (x->rank != 2 || x->dim[1] < 1)
        return pare_fail(err, PARE_ESHAPE, "the input is %s, expected (batch, classes)",
                         pare_shape_text(x, bx, sizeof(bx)));
    return pare_shape_set(&n->out[0]->t, (enum pare_dtype)a->random.dtype, 2,
                          (int64_t[]){ x->dim[0], a->sample_size }, err);
}

/* The class at which the sum of probabilities exceeds u times their total. */
static int64_t draw(const double *p, int64_t classes, double u)
{
    double total = 0, sum = 0;
    int64_t last = 0;

    for (int64_t k = 0; k < classes; k++)
        total += p[k];
    for (int64_t k = 0; k < classes; k++) {
        sum += p[k];
        last = p[k] > 0 ? k : last;
        if (sum > u * total)
            return k;
    }
    return last;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t classes = x->dim[1], draws = y->dim[1];
    uint64_t state = pare_random_start(n);
    double *p;

    if (!pare_numel(y))
        return 0;
    p = pare_alloc(c->scratch, (size_t)classes, sizeof(*p));
    if (!p)
        return pare_no_memory(err, "for %lld probabilities", (long long)classes);
    for (int64_t i = 0; i < x->dim[0]; i++) {
        double top = -INFINITY;

        for (int64_t k = 0; k < classes; k++)
            top = fmax(top, pare_get(x, i * classes + k));
        for (int64_t k = 0; k < classes; k++)
            p[k] = isinf(top) ? 1 : exp(pare_get(x, i * classes + k) - top);
        for (int64_t j = 0; j < draws; j++) {
            int64_t v = draw(p, classes, pare_random_uniform(&state));

            if (y->dtype == PARE_I64)
                ((int64_t *)y->data)[i * draws + j] = v;
            else
                ((int32_t *)y->data)[i * draws + j] = (int32_t)v;
        }
    }
    return 0;
}

const struct pare_op pare_op_multinomial = {
    .type = "Multinomial",
    .doc = "Classes drawn with given log-probabilities.",
    .since = 7,
    .in = "T",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct multinomial),
    .flags = PARE_OP_RANDOM | PARE_OP_STEPS,
    .infer = infer,
    .forward = forward,
};
