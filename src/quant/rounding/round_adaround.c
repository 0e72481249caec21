/* round_adaround.c - rounding adaround: AdaRound (Nagel et al. 2020) in Gram form, after gptq.
 *
 *     Q = scale clip(base + h(V)),  h = clip(1.2 sigmoid(V) - 0.1, 0, 1)
 *     loss = tr (Q - W*) G (Q - W*)' / power + lambda sum(1 - |2 h - 1|^beta)
 *
 * The gradient of the first term needs no activations: 2 (Q - W*) G.  `power` normalizes each row
 * by the square of its step and the mean of G's diagonal, so that one lambda fits all layers.  V
 * starts where h is the fraction of W*, drawn toward the level that is given, and Adam minimizes
 * the loss over all rows at once; beta falls from 20 to 2 after a fifth of the steps.
 */
#include <math.h>
#include <string.h>

#include "../../backend/gemm/cholesky.h"
#include "../../base/arena.h"
#include "round_job.h"

#define STRETCH 1.2
#define BELOW (-0.1)
#define WARM 0.2 /* part of the steps without the second term */
#define LAMBDA 0.02
#define RATE 0.02
#define TOWARD 0.35 /* how far h starts from the fraction toward the level that is given */

struct learner {
    const struct pare_round_job *j;
    const struct pare_round_rows *m;           /* its levels are where learning starts */
    double *v, *h, *e, *grad, *first, *second; /* (rows, k) */
    double *base;                              /* (rows, k): the lower of the two levels */
    double *power;                             /* (rows) */
};

static double step_of(const struct learner *s, int64_t row, int64_t c, double *zero)
{
    const struct pare_round_grid *g = &s->j->r->grid;
    int64_t at = row * g->blocks + s->j->order[c] / g->size;

    *zero = (double)s->m->zero[at];
    return (double)s->m->scale[at];
}

static void begin_row(struct learner *s, int64_t row)
{
    const struct pare_round_grid *grid = &s->j->r->grid;
    const int64_t k = s->j->r->k;
    double power = 0, mean = 0;

    for (int64_t c = 0; c < k; c++) {
        int64_t i = row * k + c;
        double zero, scale = step_of(s, row, c, &zero), x = s->m->target[i] / scale + zero;
        double lo = floor(x), h, level = (double)s->m->level[i];

        lo = lo < (double)grid->qmin ? (double)grid->qmin : lo;
        lo = lo > (double)grid->qmax - 1 ? (double)grid->qmax - 1 : lo;
        if (level < lo || level > lo + 1) /* it was moved further: start below or above it */
            lo = level > lo ? level - 1 : level;
        s->base[i] = lo;
        h = x - lo;
        h = h + TOWARD * (level - lo - h);
        h = h < 0.02 ? 0.02 : h > 0.98 ? 0.98 : h;
        s->v[i] = -log(STRETCH / (h - BELOW) - 1);
        power += scale * scale / (double)k;
        mean += s->j->g[c * k + c] / (double)k;
    }
    s->power[row] = power * mean;
}

/* e = Q - W* with soft levels. */
static void soft_row(struct learner *s, int64_t row)
{
    const int64_t k = s->j->r->k;

    for (int64_t c = 0; c < k; c++) {
        int64_t i = row * k + c;
        double zero, scale = step_of(s, row, c, &zero);
        double h = STRETCH / (1 + exp(-s->v[i])) + BELOW;

        s->h[i] = h < 0 ? 0 : h > 1 ? 1 : h;
        if (pare_round_is_fixed(s->m, row, k, c))
            s->h[i] = zero - s->base[i];
        s->e[i] = (s->base[i] + s->h[i] - zero) * scale - s->m->target[i];
    }
}

/* One step of Adam on a row; beta 0: without the second term. */
static void learn_row(struct learner *s, int64_t row, double beta, int64_t t)
{
    const int64_t k = s->j->r->k;
    double fix1 = 1 - pow(0.9, (double)t), fix2 = 1 - pow(0.999, (double)t);

    for (int64_t c = 0; c < k; c++) {
        int64_t i = row * k + c;
        double zero, scale = step_of(s, row, c, &zero), sig = 1 / (1 + exp(-s->v[i]));
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
    const struct pare_gram_round *r = s->j->r;
    const int64_t rows = s->m->n, k = r->k;
    int threads = r->threads;

    for (int64_t t = 1; t <= r->steps; t++) {
        double done = (double)t / (double)r->steps;
        double beta = done < WARM ? 0 : 2 + 18 * (1 - (done - WARM) / (1 - WARM));

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t i = 0; i < rows; i++)
            soft_row(s, i);
        memset(s->grad, 0, (size_t)(rows * k) * sizeof(double));
        pare_dgemm(&(struct pare_dgemm){ .a = { s->e, NULL, k, 1 },
                                         .b = { s->j->g, NULL, k, 1 },
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

/* Each weight goes to the level below or above its target, or to the one it starts from if that is
 * neither. */
static int learn_rows(const struct pare_round_job *j, const struct pare_round_rows *m,
                      struct pare_err *err)
{
    struct learner s = { .j = j, .m = m };
    const int64_t k = j->r->k;
    size_t n = (size_t)m->n * (size_t)k + 1;
    double **room[] = { &s.v, &s.h, &s.e, &s.grad, &s.first, &s.second, &s.base };
    struct pare_mark mark = pare_mark(j->a);

    for (size_t i = 0; i < sizeof(room) / sizeof(*room); i++) {
        *room[i] = pare_alloc(j->a, n, sizeof(double));
        if (!*room[i])
            return pare_no_memory(err, "to learn the rounding of weights");
    }
    s.power = pare_alloc(j->a, (size_t)m->n + 1, sizeof(double));
    if (!s.power)
        return pare_no_memory(err, "to learn the rounding of weights");
    for (int64_t i = 0; i < m->n; i++)
        begin_row(&s, i);
    learn(&s);
    for (int64_t i = 0; i < m->n * k; i++)
        if (s.power[i / k] > 0 && !pare_round_is_fixed(m, i / k, k, i % k))
            m->level[i] = (int16_t)(s.base[i] + (s.h[i] >= 0.5));
    pare_rewind(j->a, mark);
    return 0;
}

static int adaround(struct pare_round_job *j, struct pare_err *err)
{
    const struct pare_gram_round *r = j->r;
    int64_t each = PARE_ROUND_CHUNK / (r->k * (int64_t)sizeof(double));
    struct pare_round_rows m;

    PARE_TRY(pare_round_gptq(j, err));
    each = each < 1 ? 1 : each > r->rows ? r->rows : each;
    PARE_TRY(pare_round_rows_new(j, each, &m, err));
    for (int64_t from = 0; from < r->rows; from += each) {
        pare_round_rows_resume(j, from, r->rows - from < each ? r->rows - from : each, &m);
        PARE_TRY(learn_rows(j, &m, err));
        pare_round_measure(j, &m);
        pare_round_descend(j, &m);
        pare_round_keep(j, &m);
    }
    return 0;
}

const struct pare_rounding_method pare_rounding_adaround = {
    .name = "adaround",
    .doc = "Round by gptq, then learn whether each weight goes up or down.",
    .needs_data = true,
    .steps = 800,
    .round = adaround,
};
