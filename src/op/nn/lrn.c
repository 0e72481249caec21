/* lrn.c - LRN: local response normalization across neighboring channels.
 *
 *     y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta
 *
 * for channels k from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2), if they exist.
 */
#include <math.h>

#include "norm.h"

struct lrn {
    double alpha, beta, bias;
    int64_t size;
};

#define AT(field) offsetof(struct lrn, field)
static const struct pare_opt attrs[] = {
    PARE_FLOAT("alpha", AT(alpha), "factor of the squares", 1e-4, PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("beta", AT(beta), "exponent", 0.75, PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("bias", AT(bias), "added to the squares", 1, PARE_NO_MIN, PARE_NO_MAX),
    { "size", "number of channels to sum", PARE_OPT_INT, AT(size), 1, 1, INT32_MAX, NULL, NULL,
      true, NULL },
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
    float *y = pare_f32_mut(&n->out[0]->t);
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

/* For one sample, with S[c] the base of the power,
 *     dL/dx[j] = gy[j] S[j]^-beta - 2 alpha beta / size x[j] sum of t[c],
 *     t[c] = gy[c] x[c] S[c]^(-beta - 1),
 * over the channels c whose sum includes j.  t and row are scratch: (C, inner) and (inner). */
struct sample {
    const float *x, *gy;
    float *gx, *t;
    double *row;
    int64_t C, inner, before, after;
};

/* row = the sum over channels c - before to c + after of v, or of its squares. */
static void add_window(const struct sample *s, const float *v, int64_t c, bool square)
{
    int64_t first = c > s->before ? c - s->before : 0;
    int64_t last = s->after < s->C - 1 - c ? c + s->after : s->C - 1;

    memset(s->row, 0, (size_t)s->inner * sizeof(*s->row));
    for (int64_t j = first; j <= last; j++)
        for (int64_t k = 0; k < s->inner; k++) {
            double w = (double)v[j * s->inner + k];

            s->row[k] += square ? w * w : w;
        }
}

static void back_sample(struct sample *s, const struct lrn *a)
{
    double alpha = a->alpha / (double)a->size;
    int64_t before = s->before;

    for (int64_t c = 0; c < s->C; c++) {
        add_window(s, s->x, c, true);
        for (int64_t k = 0, i = c * s->inner; k < s->inner; k++, i++) {
            double sum = a->bias + alpha * s->row[k], g = (double)s->gy[i] * pow(sum, -a->beta);

            s->gx[i] += (float)g;
            s->t[i] = (float)(g * (double)s->x[i] / sum);
        }
    }
    s->before = s->after,
    s->after = before; /* mirrored: the channels whose sum includes this one */
    for (int64_t c = 0; c < s->C; c++) {
        add_window(s, s->t, c, false);
        for (int64_t k = 0, i = c * s->inner; k < s->inner; k++, i++)
            s->gx[i] -= (float)(2 * alpha * a->beta * (double)s->x[i] * s->row[k]);
    }
    s->after = s->before, s->before = before;
}

static int backward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const struct lrn *a = n->attr;
    struct sample s = { .x = pare_f32(&n->in[0]->t),
                        .gy = pare_f32(&n->out[0]->grad),
                        .gx = pare_f32_mut(&n->in[0]->grad),
                        .C = n->in[0]->t.dim[1] };
    int64_t total = pare_numel(&n->in[0]->t);

    if (!s.gx || !s.gy || !total)
        return 0;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &s.inner, err));
    s.before = (a->size - 1) / 2;
    s.after = a->size - 1 - s.before;
    s.t = pare_alloc_raw(ctx->scratch, (size_t)(s.C * s.inner), sizeof(*s.t));
    s.row = pare_alloc_raw(ctx->scratch, (size_t)s.inner, sizeof(*s.row));
    if (!s.t || !s.row)
        return pare_no_memory(err, "for a sample of %lld elements", (long long)s.C * s.inner);
    for (int64_t i = 0; i < n->in[0]->t.dim[0]; i++) {
        back_sample(&s, a);
        s.x += s.C * s.inner;
        s.gy += s.C * s.inner;
        s.gx += s.C * s.inner;
    }
    return 0;
}

/* Channels depend on their neighbors: they are frozen. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_ties_except(n, 1u << 1, t);
}

const struct pare_op pare_op_lrn = {
    .type = "LRN",
    .doc = "Normalize by the squares of neighboring channels.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct lrn),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
