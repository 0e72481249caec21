/* mixup.c - batches of mixed items. */
#include "mixup.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"

/* The other item of a pair. */
static int64_t partner(int64_t i, int64_t n)
{
    return (i ^ 1) < n ? i ^ 1 : i;
}

/* Gamma(a): Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. */
static double gamma_of(struct pare_rng *r, double a)
{
    double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d), v = 1;

    for (int i = 0; i < 1000; i++) { /* the first try succeeds in 95 of 100 cases */
        double x = pare_rng_normal(r), u = 1 - pare_rng_uniform(r), t = 1 + c * x;

        v = t * t * t;
        if (t > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            break;
        v = 1;
    }
    return a < 1 ? d * v * pow(1 - pare_rng_uniform(r), 1 / a) : d * v;
}

double pare_rng_beta(struct pare_rng *r, double alpha)
{
    double x = gamma_of(r, alpha), y = gamma_of(r, alpha);

    return x + y > 0 ? x / (x + y) : 0.5;
}

int pare_mixup_new(double alpha, uint64_t seed, struct pare_mixup **mixup, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_mixup *m = a ? pare_alloc(a, 1, sizeof(*m)) : NULL;

    *mixup = NULL;
    if (!m) {
        pare_arena_free(a);
        return pare_no_memory(err, "for mixup");
    }
    *m = (struct pare_mixup){ .alpha = alpha, .seed = seed, .arena = a };
    m->start = pare_mark(a);
    *mixup = m;
    return 0;
}

void pare_mixup_free(struct pare_mixup *m)
{
    if (m)
        pare_arena_free(m->arena);
}

static int mix_input(struct pare_mixup *m, const struct pare_tensor *x, struct pare_tensor *to,
                     struct pare_err *err)
{
    int64_t n = x->dim[0], size = n ? pare_numel(x) / n : 0;
    float l = (float)m->share;

    if (x->dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "mixup needs inputs of float32, this one has %s: train without it",
                         pare_dtype_name(x->dtype));
    PARE_TRY(pare_tensor_new(m->arena, to, PARE_F32, x->rank, x->dim, err));
    for (int64_t i = 0; i < n; i++) {
        const float *a = pare_f32(x) + i * size, *b = pare_f32(x) + partner(i, n) * size;
        float *y = pare_f32_mut(to) + i * size;

        for (int64_t k = 0; k < size; k++)
            y[k] = b[k] + l * (a[k] - b[k]);
    }
    return 0;
}

static int turn_labels(struct pare_mixup *m, const struct pare_tensor *y, struct pare_err *err)
{
    int64_t n = y->rank ? y->dim[0] : 0;
    size_t each = n ? (size_t)(pare_numel(y) / n) * pare_dtype_size(y->dtype) : 0;

    m->y.data = NULL;
    if (!y->data || !n)
        return 0;
    PARE_TRY(pare_tensor_new(m->arena, &m->y, y->dtype, y->rank, y->dim, err));
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)m->y.data + (size_t)i * each,
               (const char *)y->data + (size_t)partner(i, n) * each, each);
    return 0;
}

int pare_mixup_batch(struct pare_mixup *m, const struct pare_batch *b, int64_t step,
                     struct pare_err *err)
{
    struct pare_rng rng;

    pare_rng_init(&rng, (m->seed + 0x5851f42d4c957f2du) * 0x9e3779b97f4a7c15u + (uint64_t)step);
    m->share = pare_rng_beta(&rng, m->alpha);
    pare_rewind(m->arena, m->start);
    for (int k = 0; k < b->n_in; k++) {
        m->in[k] = b->in[k];
        if (b->axis[k] > 0)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "mixup needs inputs whose first axis is the batch");
        if (b->axis[k] == 0)
            PARE_TRY(mix_input(m, &b->in[k], &m->in[k], err));
    }
    return turn_labels(m, &b->y, err);
}

int pare_mixup_loss(const struct pare_mixup *m, const struct pare_trainer *t, float *grad,
                    double *loss, struct pare_err *err)
{
    int64_t n = pare_numel(&t->out);
    float *first, l = (float)m->share;
    double other;

    if (!m->y.data)
        return 0;
    first = pare_alloc_raw(m->arena, (size_t)n + 1, sizeof(*first));
    if (!first)
        return pare_no_memory(err, "for mixed gradients");
    memcpy(first, grad, (size_t)n * sizeof(*first));
    PARE_TRY(t->o.loss->run(t->o.loss_conf, &t->out, &m->y, grad, &other, err));
    for (int64_t i = 0; i < n; i++)
        grad[i] += l * (first[i] - grad[i]);
    *loss = other + m->share * (*loss - other);
    return 0;
}
