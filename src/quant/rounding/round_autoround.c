/* round_autoround.c - rounding autoround: AutoRound (Cheng et al. 2023) in Gram form.
 *
 *     Q = s (clip(round(W* / s + V) + z) - z),  s and z from the range (a lo, b hi)
 *
 * V in [-0.5, 0.5] per weight and a, b in [0, 1] per scale move by the sign of the gradient of the
 * error of the outputs, which is  2 (Q - W*) G,  with a straight-through estimate of the rounding.
 * The step falls linearly from 1/steps to 0.  Each row keeps its best step; rows are independent,
 * since their error is a sum.
 */
#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "round_job.h"

struct learner {
    const struct pare_round_job *j;
    struct pare_round_rows *m;
    double *v;       /* (rows, k) */
    double *lo, *hi; /* (rows, blocks): range of W* */
    double *a, *b;   /* (rows, blocks) */
    double *da, *db; /* (rows, blocks): gradients */
};

static int64_t block_of(const struct learner *s, int64_t row, int64_t c)
{
    const struct pare_round_grid *g = &s->j->r->grid;

    return row * g->blocks + s->j->order[c] / g->size;
}

static void begin_row(struct learner *s, int64_t row)
{
    const int64_t k = s->j->r->k;

    for (int64_t c = 0; c < k; c++) {
        double x = pare_round_is_fixed(s->m, row, k, c) ? 0 : s->m->target[row * k + c];
        int64_t at = block_of(s, row, c);

        s->lo[at] = x < s->lo[at] ? x : s->lo[at];
        s->hi[at] = x > s->hi[at] ? x : s->hi[at];
    }
}

/* Scales and levels of a row. */
static void levels_of_row(struct learner *s, int64_t row)
{
    const struct pare_round_grid *g = &s->j->r->grid;
    const int64_t k = s->j->r->k;

    for (int64_t at = row * g->blocks; at < (row + 1) * g->blocks && !g->given; at++)
        pare_grid_fit(g, s->a[at] * s->lo[at], s->b[at] * s->hi[at], &s->m->scale[at],
                      &s->m->zero[at]);
    for (int64_t c = 0; c < k; c++) {
        int64_t at = block_of(s, row, c), i = row * k + c;
        double sc = (double)s->m->scale[at], z = (double)s->m->zero[at];
        double q = pare_round_is_fixed(s->m, row, k, c)
                       ? z
                       : pare_grid_level(g, s->m->target[i] + s->v[i] * sc, sc, z);

        s->m->level[i] = (int16_t)q;
    }
}

/* Which ends of the range determine the scale. */
static void add_range_gradient(struct learner *s, int64_t at, double d)
{
    const struct pare_round_grid *g = &s->j->r->grid;
    double up = (double)(g->qmax - g->middle), down = (double)(g->middle - g->qmin);

    if (!g->symmetric) {
        s->db[at] += d * s->hi[at];
        s->da[at] -= d * s->lo[at];
    } else if (s->b[at] * s->hi[at] / up > -s->a[at] * s->lo[at] / down) {
        s->db[at] += d * s->hi[at];
    } else {
        s->da[at] -= d * s->lo[at];
    }
}

static double signed_step(double gradient, double rate)
{
    return gradient > 0 ? -rate : gradient < 0 ? rate : 0;
}

static double within(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static void move_row(struct learner *s, int64_t row, double rate)
{
    const struct pare_round_grid *g = &s->j->r->grid;
    const int64_t k = s->j->r->k, from = row * g->blocks;

    memset(s->da + from, 0, (size_t)g->blocks * sizeof(double));
    memset(s->db + from, 0, (size_t)g->blocks * sizeof(double));
    for (int64_t c = 0; c < k; c++) {
        int64_t at = block_of(s, row, c), i = row * k + c, q = s->m->level[i];
        double sc = (double)s->m->scale[at], x = s->m->target[i] / sc + s->v[i];
        double free = rint(x) + (double)s->m->zero[at], d = s->m->grad[i];
        bool clipped = free < (double)g->qmin || free > (double)g->qmax;

        if (pare_round_is_fixed(s->m, row, k, c))
            continue;
        add_range_gradient(s, at,
                           d * ((double)q - (double)s->m->zero[at] -
                                (clipped ? 0 : s->m->target[i] / sc)));
        if (!clipped)
            s->v[i] = within(s->v[i] + signed_step(d, rate), -0.5, 0.5);
    }
    for (int64_t at = from; at < from + g->blocks; at++) {
        s->a[at] = within(s->a[at] + signed_step(s->da[at], rate), 0, 1);
        s->b[at] = within(s->b[at] + signed_step(s->db[at], rate), 0, 1);
    }
}

static void learn(struct learner *s)
{
    const struct pare_gram_round *r = s->j->r;
    const int64_t rows = s->m->n, steps = r->steps;
    int threads = r->threads;

    for (int64_t t = 0; t <= steps; t++) {
        double rate = (1 - (double)t / (double)steps) / (double)steps;

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t i = 0; i < rows; i++)
            levels_of_row(s, i);
        pare_round_measure(s->j, s->m);
        pare_round_keep(s->j, s->m);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t i = 0; i < rows; i++)
            move_row(s, i, rate);
    }
}

static int open_learner(struct learner *s, int64_t most, struct pare_err *err)
{
    size_t n = (size_t)most * (size_t)s->j->r->grid.blocks + 1;
    double **room[] = { &s->lo, &s->hi, &s->a, &s->b, &s->da, &s->db };

    s->v = pare_alloc(s->j->a, (size_t)most * (size_t)s->j->r->k + 1, sizeof(double));
    if (!s->v)
        return pare_no_memory(err, "to learn the rounding of weights");
    for (size_t i = 0; i < sizeof(room) / sizeof(*room); i++) {
        *room[i] = pare_alloc(s->j->a, n, sizeof(double));
        if (!*room[i])
            return pare_no_memory(err, "to learn the rounding of weights");
    }
    return 0;
}

static int autoround(struct pare_round_job *j, struct pare_err *err)
{
    const struct pare_gram_round *r = j->r;
    const int64_t k = r->k, blocks = r->grid.blocks;
    int64_t each = PARE_ROUND_CHUNK / (k * (int64_t)sizeof(double));
    struct pare_round_rows m;
    struct learner s = { .j = j, .m = &m };

    each = each < 1 ? 1 : each > r->rows ? r->rows : each;
    PARE_TRY(pare_round_rows_new(j, each, &m, err));
    PARE_TRY(open_learner(&s, each, err));
    for (int64_t from = 0; from < r->rows; from += each) {
        pare_round_rows_take(j, from, r->rows - from < each ? r->rows - from : each, 1, &m);
        PARE_TRY(pare_round_fit(j, r->scales, m.target, &m, err));
        memset(s.v, 0, (size_t)(m.n * k) * sizeof(double));
        for (int64_t i = 0; i < m.n * blocks; i++) {
            s.lo[i] = s.hi[i] = 0;
            s.a[i] = s.b[i] = 1;
        }
        for (int64_t i = 0; i < m.n; i++)
            begin_row(&s, i);
        learn(&s);
    }
    return 0;
}

const struct pare_rounding_method pare_rounding_autoround = {
    .name = "autoround",
    .doc = "Learn offsets of all weights and clipping of all ranges by signs of gradients, 200 "
           "steps.",
    .needs_data = true,
    .steps = 200,
    .round = autoround,
};
