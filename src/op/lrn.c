/* lrn.c - LRN: local response normalisation across neighbouring channels.
 *
 *     y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta
 *
 * for k from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2), where there are channels.
 */
#include <math.h>

#include "norm.h"

struct lrn {
    double alpha, beta, bias;
    int64_t size;
};

#define AT(field) offsetof(struct lrn, field)
static const struct pare_opt attrs[] = {
    { "alpha", "weight of the squares", PARE_OPT_FLOAT, AT(alpha), 1e-4, PARE_ANY, NULL, NULL,
      false },
    { "beta", "the power", PARE_OPT_FLOAT, AT(beta), 0.75, PARE_ANY, NULL, NULL, false },
    { "bias", "added to the squares", PARE_OPT_FLOAT, AT(bias), 1, PARE_ANY, NULL, NULL, false },
    { "size", "channels that are summed", PARE_OPT_INT, AT(size), 1, 1, INT32_MAX, NULL, NULL,
      true },
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    int64_t inner;

    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    return pare_infer_same(n, err);
}

static int forward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const struct lrn *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32(&n->out[0]->t);
    int64_t C = n->in[0]->t.dim[1], planes = n->in[0]->t.dim[0] * C, inner;
    int64_t before = (a->size - 1) / 2, after = a->size - 1 - before;

    (void)ctx;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t p = 0; p < planes && inner; p++) {
        int64_t c = p % C, first = c > before ? c - before : 0;
        int64_t last = c + after < C ? c + after : C - 1;
        const float *sample = x + (p - c) * inner;

        for (int64_t k = 0; k < inner; k++) {
            double sum = 0;

            for (int64_t j = first; j <= last; j++)
                sum += (double)sample[j * inner + k] * (double)sample[j * inner + k];
            sum = a->bias + a->alpha / (double)a->size * sum;
            y[p * inner + k] = (float)((double)x[p * inner + k] / pow(sum, a->beta));
        }
    }
    return 0;
}

const struct pare_op pare_op_lrn = {
    .abi = PARE_ABI,
    .type = "LRN",
    .doc = "Divides by the size of the neighbouring channels' values.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct lrn),
    .infer = infer,
    .forward = forward,
    .ties = pare_ties_elementwise,
};
