/* gram_learn.c - AdaRound (Nagel et al. 2020) in Gram form.
 *
 *     Q = scale clip(base + h(V)),  h = clip(1.2 sigmoid(V) - 0.1, 0, 1)
 *     loss = tr (Q - W*) G (Q - W*)' / power + lambda sum(1 - |2 h - 1|^beta)
 *
 * The gradient of the first term needs no activations: 2 (Q - W*) G.  `power` normalizes each row
 * by the square of its step and the mean of G's diagonal, so that one lambda fits all layers.  V
 * starts where h is the fraction of W*, drawn toward the level that is given, and Adam minimizes
 * the loss over all rows at once; beta falls from 20 to 2 after a fifth of the steps.
 */
#include "gram_learn.h"

#include <math.h>
#include <string.h>

#include "../backend/gemm/cholesky.h"
#include "../base/arena.h"

#define STRETCH 1.2
#define BELOW (-0.1)
#define WARM 0.2 /* part of the steps without the second term */
#define LAMBDA 0.02
#define RATE 0.02
#define TOWARD 0.35 /* how far h starts from the fraction toward the level that is given */

struct learner {
    const struct pare_gram_learn *l;
    double *v, *h, *e, *grad, *first, *second; /* (rows, k) */
    double *base;                              /* (rows, k): the lower of the two levels */
    double *power;                             /* (rows) */
};

static double step_of(const struct pare_gram_learn *l, int64_t row, int64_t c, double *zero)
{
    int64_t at = row * l->grid->blocks + l->order[c] / l->grid->size;

    *zero = (double)l->zero[at];
    return (double)l->scale[at];
}

static void begin_row(struct learner *s, int64_t row)
{
    const struct pare_gram_learn *l = s->l;
    double power = 0, mean = 0;

    for (int64_t c = 0; c < l->k; c++) {
        int64_t i = row * l->k + c;
        double zero, scale = step_of(l, row, c, &zero), x = l->target[i] / scale + zero;
        double lo = floor(x), h, level = (double)l->level[i];

        lo = lo < (double)l->grid->qmin ? (double)l->grid->qmin : lo;
        lo = lo > (double)l->grid->qmax - 1 ? (double)l->grid->qmax - 1 : lo;
        if (level < lo || level > lo + 1) /* it was moved further: start below or above it */
            lo = level > lo ? level - 1 : level;
        s->base[i] = lo;
        h = x - lo;
        h = h + TOWARD * (level - lo - h);
        h = h < 0.02 ? 0.02 : h > 0.98 ? 0.98 : h;
        s->v[i] = -log(STRETCH / (h - BELOW) - 1);
        power += scale * scale / (double)l->k;
        mean += l->g[c * l->k + c] / (double)l->k;
    }
    s->power[row] = power * mean;
}

/* e = Q - W* with soft levels. */
static void soft_row(struct learner *s, int64_t row)
{
    const struct pare_gram_learn *l = s->l;

    for (int64_t c = 0; c < l->k; c++) {
        int64_t i = row * l->k + c;
        double zero, scale = step_of(l, row, c, &zero);
        double h = STRETCH / (1 + exp(-s->v[i])) + BELOW;

        s->h[i] = h < 0 ? 0 : h > 1 ? 1 : h;
        if (l->keep && !l->keep[i])
            s->h[i] = zero - s->base[i];
        s->e[i] = (s->base[i] + s->h[i] - zero) * scale - l->target[i];
    }
}

/* One step of Adam on a row; beta 0: without the second term. */
static void learn_row(struct learner *s, int64_t row, double beta, int64_t t)
{
    const struct pare_gram_learn *l = s->l;
    double fix1 = 1 - pow(0.9, (double)t), fix2 = 1 - pow(0.999, (double)t);

    for (int64_t c = 0; c < l->k; c++) {
        int64_t i = row * l->k + c;
        double zero, scale = step_of(l, row, c, &zero), sig = 1 / (1 + exp(-s->v[i]));
        double g = 2 * s->grad[i] * scale / s->power[row], u = 2 * s->h[i] - 1;

        if (beta > 0)
            g -= LAMBDA * beta * pow(fabs(u), beta - 1) * (u > 0 ? 2 : -2);
        if (s->h[i] <= 0 || s->h[i] >= 1) /* clipped */
            g = 0;
        g *= STRETCH * sig * (1 - sig);
        s->first[i] = 0.9 * s->first[i] + 0.1 * g;
        s->second[i] = 0.999 * s->second[i] + 0.001 * g * g;
        s->v[i] -= RATE * (s->first[i] / fix1) / (sqrt(s->second[i] / fix2) + 1e-8);
    }
}

static void learn(struct learner *s)
{
    const struct pare_gram_learn *l = s->l;
    const int64_t rows = l->rows, k = l->k;
    int threads = l->threads;

    for (int64_t t = 1; t <= l->steps; t++) {
        double done = (double)t / (double)l->steps;
        double beta = done < WARM ? 0 : 2 + 18 * (1 - (done - WARM) / (1 - WARM));

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t i = 0; i < rows; i++)
            soft_row(s, i);
        memset(s->grad, 0, (size_t)(rows * k) * sizeof(double));
        pare_dgemm(&(struct pare_dgemm){ .a = { s->e, NULL, k, 1 },
                                         .b = { l->g, NULL, k, 1 },
                                         .c = s->grad,
                                         .m = rows,
                                         .n = k,
                                         .k = k,
                                         .ldc = k,
                                         .sign = 1,
                                         .threads = threads });
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t i = 0; i < rows; i++)
            learn_row(s, i, beta, t);
    }
}

int pare_gram_learn(const struct pare_gram_learn *l, struct pare_arena *a, struct pare_err *err)
{
    struct learner s = { .l = l };
    size_t n = (size_t)l->rows * (size_t)l->k + 1;
    double **room[] = { &s.v, &s.h, &s.e, &s.grad, &s.first, &s.second, &s.base };
    struct pare_mark mark = pare_mark(a);

    for (size_t i = 0; i < sizeof(room) / sizeof(*room); i++) {
        *room[i] = pare_alloc(a, n, sizeof(double));
        if (!*room[i])
            return pare_no_memory(err, "to learn the rounding of weights");
    }
    s.power = pare_alloc(a, (size_t)l->rows + 1, sizeof(double));
    if (!s.power)
        return pare_no_memory(err, "to learn the rounding of weights");
    for (int64_t i = 0; i < l->rows; i++)
        begin_row(&s, i);
    learn(&s);
    for (int64_t i = 0; i < l->rows * l->k; i++)
        if (s.power[i / l->k] > 0 && (!l->keep || l->keep[i]))
            l->level[i] = (int16_t)(s.base[i] + (s.h[i] >= 0.5));
    pare_rewind(a, mark);
    return 0;
}
