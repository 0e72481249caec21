/* gram_round.c - GPTQ on a Gram matrix: columns in order of their power, each rounding error
 * carried over to the columns that follow; then descent over single weights.
 *
 * With inverse(H) = U' U, U upper, rounding column j with error e changes the columns after it by
 * -e / U_jj U_j,: (Frantar et al. 2022).  Scales are chosen per row by trying several, each with
 * all of its propagation, while that is cheap; else by the norm of the rounding error.
 */
#include "gram_round.h"

#include <math.h>
#include <string.h>

#include "../backend/gemm/cholesky.h"
#include "../base/arena.h"
#include "../base/simd.h"
#include "gram_learn.h"
#include "round_grid.h"

#define COLUMNS 64       /* columns between two updates of the rest */
#define TRIES 20         /* scales that are tried with propagation */
#define LEAST 0.25       /* smallest part of the whole range that is tried */
#define CHEAP 8e9        /* multiplications for all of them */
#define PASSES 12        /* of descent */
#define CHUNK (32 << 20) /* bytes of rows that are rounded at a time */

struct job {
    struct pare_gram_round *r;
    struct pare_arena *a;
    int64_t *order;     /* (k) columns by descending power */
    double *g, *u;      /* (k, k) in that order */
    double *w, *target; /* (rows, k) in that order: W, W* */
    int16_t *level;     /* (rows, k) in that order */
    uint8_t *keep;      /* (rows, k) in that order, or NULL */
    double *errors;     /* (rows) of `level` */
};

/* Rows that are rounded together: row i has scale[i * blocks + ...]. */
struct batch {
    int64_t n;
    double *w;       /* (n, k) is overwritten */
    double *carried; /* (n, COLUMNS) */
    int16_t *level;  /* (n, k) */
    const float *scale, *zero;
    const uint8_t *keep; /* of the first row's original, or NULL */
    int64_t copies;      /* of each row */
};

/* Is the weight fixed at 0? */
static bool is_fixed(const struct batch *b, int64_t row, int64_t k, int64_t c)
{
    return b->keep && !b->keep[row / b->copies * k + c];
}

static double *doubles(struct pare_arena *a, int64_t n, int64_t m)
{
    return pare_alloc_raw(a, (size_t)n * (size_t)m + 1, sizeof(double));
}

/* ---- rounding in order ----------------------------------------------------------------------- */

PARE_SIMD static void carry(double *w, const double *u, double e, int64_t n)
{
    for (int64_t t = 0; t < n; t++)
        w[t] -= e * u[t];
}

/* Columns [from, to) of a row. */
static void round_columns(const struct job *j, const struct batch *b, int64_t row, int64_t from,
                          int64_t to)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k;
    double *w = b->w + row * k, *carried = b->carried + row * COLUMNS;

    for (int64_t c = from; c < to; c++) {
        int64_t at = row * grid->blocks + j->order[c] / grid->size;
        double s = (double)b->scale[at], z = (double)b->zero[at];
        double q = is_fixed(b, row, k, c) ? z : pare_grid_level(grid, w[c], s, z);
        double e = (w[c] - (q - z) * s) / j->u[c * k + c];

        b->level[row * k + c] = (int16_t)q;
        carried[c - from] = e;
        carry(w + c + 1, j->u + c * k + c + 1, e, to - c - 1);
    }
}

static void round_batch(const struct job *j, const struct batch *b)
{
    const int64_t k = j->r->k;
    int threads = j->r->threads;

    for (int64_t from = 0; from < k; from += COLUMNS) {
        int64_t to = k - from < COLUMNS ? k : from + COLUMNS;

#pragma omp parallel for num_threads(threads) if (threads > 1 && b->n * k > 4096) schedule(static)
        for (int64_t i = 0; i < b->n; i++)
            round_columns(j, b, i, from, to);
        pare_dgemm(&(struct pare_dgemm){ .a = { b->carried, NULL, COLUMNS, 1 },
                                         .b = { j->u + from * k + to, NULL, k, 1 },
                                         .c = b->w + to,
                                         .m = b->n,
                                         .n = k - to,
                                         .k = to - from,
                                         .ldc = k,
                                         .sign = -1,
                                         .threads = threads });
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* e (n, k) = Q - W*, grad (n, k) = e G; errors of rows: e grad. */
static void measure(const struct job *j, const struct batch *b, const double *target, double *e,
                    double *grad, double *errors)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k;

    for (int64_t i = 0; i < b->n; i++)
        for (int64_t c = 0; c < k; c++) {
            int64_t at = i * grid->blocks + j->order[c] / grid->size;

            e[i * k + c] = ((double)b->level[i * k + c] - (double)b->zero[at]) *
                               (double)b->scale[at] -
                           target[i * k + c];
        }
    memset(grad, 0, (size_t)(b->n * k) * sizeof(*grad));
    pare_dgemm(&(struct pare_dgemm){ .a = { e, NULL, k, 1 },
                                     .b = { j->g, NULL, k, 1 },
                                     .c = grad,
                                     .m = b->n,
                                     .n = k,
                                     .k = k,
                                     .ldc = k,
                                     .sign = 1,
                                     .threads = j->r->threads });
    for (int64_t i = 0; i < b->n; i++) {
        errors[i] = 0;
        for (int64_t c = 0; c < k; c++)
            errors[i] += e[i * k + c] * grad[i * k + c];
    }
}

/* Moves single weights of a row to the level with the least error, until none moves. */
static void descend_row(const struct job *j, const struct batch *b, int64_t row, double *e,
                        double *grad)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k;
    int64_t moved = 1;

    for (int pass = 0; pass < PASSES && moved; pass++) {
        moved = 0;
        for (int64_t c = 0; c < k; c++) {
            int64_t at = row * grid->blocks + j->order[c] / grid->size;
            double s = (double)b->scale[at], power = j->g[c * k + c], old, new;

            if (!(power > 0) || is_fixed(b, row, k, c))
                continue;
            old = (double)b->level[row * k + c];
            new = rint(old - grad[c] / (power * s));
            new = new < (double)grid->qmin ? (double)grid->qmin : new;
            new = new > (double)grid->qmax ? (double)grid->qmax : new;
            if (!(fabs(new - old) >= 1)) /* also if it is NaN */
                continue;
            b->level[row * k + c] = (int16_t) new;
            e[c] += s * (new - old);
            carry(grad, j->g + c * k, -s * (new - old), k);
            moved++;
        }
    }
}

/* The sums are computed anew: those that descent updates lose digits. */
static void descend(const struct job *j, const struct batch *b, const double *target, double *e,
                    double *grad, double *errors)
{
    const int64_t k = j->r->k;
    int threads = j->r->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1 && b->n * k > 4096) schedule(dynamic)
    for (int64_t i = 0; i < b->n; i++)
        descend_row(j, b, i, e + i * k, grad + i * k);
    measure(j, b, target, e, grad, errors);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int64_t tries_of(const struct pare_gram_round *r)
{
    double each = (double)r->rows * (double)r->k * (double)r->k * 2;
    double n = each > 0 ? CHEAP / each : TRIES;

    return r->grid.given ? 1 : n < 3 ? 1 : n > TRIES ? TRIES : (int64_t)n;
}

/* Scales of `tries` copies of each row: parts of its range, or the least norm. */
static void candidate_scales(const struct job *j, int64_t from, int64_t n, int64_t tries,
                             float *scale, float *zero)
{
    const struct pare_gram_round *r = j->r;
    const int64_t blocks = r->grid.blocks;
    int threads = r->threads;

    if (r->grid.given) {
        memcpy(scale, r->scale + from * blocks, (size_t)(n * blocks) * sizeof(*scale));
        memcpy(zero, r->zero + from * blocks, (size_t)(n * blocks) * sizeof(*zero));
        return;
    }
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const double *w = j->target + (from + i) * r->k;
        double lo, hi;

        pare_row_range(w, r->k, &lo, &hi);
        for (int64_t t = 0; t < tries && tries > 1; t++) {
            double part = 1 - (1 - LEAST) * (double)t / (double)(tries - 1);

            pare_grid_fit(&r->grid, part * lo, part * hi, &scale[i * tries + t],
                          &zero[i * tries + t]);
        }
        if (tries == 1)
            pare_grid_fit_norm(&r->grid, w, r->k, &scale[i], &zero[i]);
    }
}

/* Buffers for `most` rows. */
struct room {
    double *w, *target, *carried, *e, *grad, *errors;
    int16_t *level;
    float *scale, *zero;
};

static int make_room(const struct job *j, int64_t most, struct room *m, struct pare_err *err)
{
    int64_t k = j->r->k;

    m->w = doubles(j->a, most, k);
    m->target = doubles(j->a, most, k);
    m->e = doubles(j->a, most, k);
    m->grad = doubles(j->a, most, k);
    m->carried = doubles(j->a, most, COLUMNS);
    m->errors = doubles(j->a, most, 1);
    m->level = pare_alloc(j->a, (size_t)most * (size_t)k + 1, sizeof(*m->level));
    m->scale = pare_alloc(j->a, (size_t)most * (size_t)j->r->grid.blocks + 1, sizeof(*m->scale));
    m->zero = pare_alloc(j->a, (size_t)most * (size_t)j->r->grid.blocks + 1, sizeof(*m->zero));
    if (!m->w || !m->target || !m->e || !m->grad || !m->carried || !m->errors || !m->level ||
        !m->scale || !m->zero)
        return pare_no_memory(err, "to round weights");
    return 0;
}

/* Keeps the best of the candidates of each row. */
static void keep_best(const struct job *j, const struct room *m, int64_t from, int64_t n,
                      int64_t tries)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k, blocks = r->grid.blocks;

    for (int64_t i = 0; i < n; i++) {
        int64_t best = i * tries;

        for (int64_t t = 1; t < tries; t++)
            best = m->errors[i * tries + t] < m->errors[best] ? i * tries + t : best;
        if (!(m->errors[best] < j->errors[from + i]))
            continue;
        j->errors[from + i] = m->errors[best];
        memcpy(j->level + (from + i) * k, m->level + best * k, (size_t)k * sizeof(*m->level));
        if (r->grid.given)
            continue;
        memcpy(r->scale + (from + i) * blocks, m->scale + best * blocks,
               (size_t)blocks * sizeof(*m->scale));
        memcpy(r->zero + (from + i) * blocks, m->zero + best * blocks,
               (size_t)blocks * sizeof(*m->zero));
    }
}

/* Learned rounding from the levels so far; rows that it makes worse stay. */
static int learn_rows(const struct job *j, const struct room *m, int64_t from, int64_t n,
                      struct pare_err *err)
{
    const struct pare_gram_round *r = j->r;
    const int64_t k = r->k, at = from * r->grid.blocks;
    struct pare_gram_learn l = { .rows = n,
                                 .k = k,
                                 .order = j->order,
                                 .grid = &r->grid,
                                 .g = j->g,
                                 .target = j->target + from * k,
                                 .scale = r->scale + at,
                                 .zero = r->zero + at,
                                 .level = m->level,
                                 .steps = r->steps,
                                 .threads = r->threads };
    struct batch b = { n, m->w, m->carried, m->level, r->scale + at, r->zero + at, NULL, 1 };

    b.keep = l.keep = j->keep ? j->keep + from * k : NULL;
    memcpy(m->level, j->level + from * k, (size_t)(n * k) * sizeof(*m->level));
    PARE_TRY(pare_gram_learn(&l, j->a, err));
    measure(j, &b, l.target, m->e, m->grad, m->errors);
    descend(j, &b, l.target, m->e, m->grad, m->errors);
    for (int64_t i = 0; i < n; i++)
        if (m->errors[i] < j->errors[from + i]) {
            j->errors[from + i] = m->errors[i];
            memcpy(j->level + (from + i) * k, m->level + i * k, (size_t)k * sizeof(*m->level));
        }
    return 0;
}

static int round_rows(struct job *j, struct pare_err *err)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k, tries = tries_of(r);
    int64_t each = CHUNK / (tries * k * (int64_t)sizeof(double));
    struct room m;

    each = each < 1 ? 1 : each > r->rows ? r->rows : each;
    PARE_TRY(make_room(j, each * tries, &m, err));
    for (int64_t from = 0; from < r->rows; from += each) {
        int64_t n = r->rows - from < each ? r->rows - from : each;
        struct batch b = { n * tries, m.w, m.carried, m.level, m.scale, m.zero, NULL, tries };

        b.keep = j->keep ? j->keep + from * k : NULL;

        candidate_scales(j, from, n, tries, m.scale, m.zero);
        for (int64_t i = 0; i < n * tries; i++)
            memcpy(m.target + i * k, j->target + (from + i / tries) * k,
                   (size_t)k * sizeof(double));
        memcpy(m.w, m.target, (size_t)(n * tries * k) * sizeof(double));
        round_batch(j, &b);
        measure(j, &b, m.target, m.e, m.grad, m.errors);
        descend(j, &b, m.target, m.e, m.grad, m.errors);
        keep_best(j, &m, from, n, tries);
        if (r->steps > 0)
            PARE_TRY(learn_rows(j, &m, from, n, err));
    }
    return 0;
}

/* ---- the matrices ---------------------------------------------------------------------------- */

/* Columns by descending power; ties stay in order. */
static void sort_columns(const struct pare_gram_round *r, int64_t *order)
{
    const double *g = r->g;
    int64_t gap = 1;

    for (int64_t i = 0; i < r->k; i++)
        order[i] = i;
    while (gap < r->k / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int64_t i = gap; i < r->k; i++) {
            int64_t v = order[i], at = i;
            double p = g[v * r->k + v];

            for (; at >= gap; at -= gap) {
                int64_t o = order[at - gap];
                double q = g[o * r->k + o];

                if (q > p || (q >= p && o < v))
                    break;
                order[at] = o;
            }
            order[at] = v;
        }
}

/* to (k, k) = x in the columns' order, centered by the means of its rows and columns. */
static void centered(const struct job *j, const double *x, const double *rows, double *to)
{
    const struct pare_gram_round *r = j->r;

    for (int64_t i = 0; i < r->k; i++)
        for (int64_t c = 0; c < r->k; c++) {
            int64_t a = j->order[i], b = j->order[c];

            to[i * r->k + c] = x[a * r->k + b] - (r->mean ? rows[a] * r->mean[b] : 0);
        }
}

static const double *d_mean(const struct pare_gram_round *r)
{
    return r->d_mean ? r->d_mean : r->mean;
}

/* u of the damped G; room (k, k) is overwritten.  The damping grows tenfold up to the mean of the
 * diagonal, then the matrix is given up. */
static bool factor(const struct job *j, double *room)
{
    const int64_t k = j->r->k;
    double mean = 0, damping = j->r->damping > 0 ? j->r->damping : 1e-6;

    for (int64_t i = 0; i < k; i++)
        mean += j->g[i * k + i] / (double)k;
    if (!(mean > 0))
        return false;
    for (; damping <= 1; damping *= 10) {
        memcpy(room, j->g, (size_t)(k * k) * sizeof(*room));
        for (int64_t i = 0; i < k; i++)
            room[i * k + i] += damping * mean;
        if (pare_inverse_factor(room, k, j->u, j->r->threads))
            return true;
    }
    return false;
}

/* target = W + W (C - G) U' U; room (k, k). */
static int find_target(const struct job *j, double *room, struct pare_err *err)
{
    const struct pare_gram_round *r = j->r;
    const int64_t k = r->k;
    double *part[2] = { doubles(j->a, r->rows, k), doubles(j->a, r->rows, k) };
    struct pare_dgemm p = { .a = { j->w, NULL, k, 1 },
                            .b = { room, NULL, k, 1 },
                            .c = part[0],
                            .m = r->rows,
                            .n = k,
                            .k = k,
                            .ldc = k,
                            .sign = 1,
                            .threads = r->threads };

    if (!part[0] || !part[1])
        return pare_no_memory(err, "to round weights");
    centered(j, r->cross, d_mean(r), room);
    for (int64_t i = 0; i < k * k; i++)
        room[i] -= j->g[i];
    memset(part[0], 0, (size_t)(r->rows * k) * sizeof(double));
    memset(part[1], 0, (size_t)(r->rows * k) * sizeof(double));
    pare_dgemm(&p);
    p.a.d = part[0];
    p.b = (struct pare_dmatrix){ j->u, NULL, 1, k };
    p.c = part[1];
    pare_dgemm(&p);
    p.a.d = part[1];
    p.b = (struct pare_dmatrix){ j->u, NULL, k, 1 };
    p.c = j->target;
    pare_dgemm(&p);
    for (int64_t i = 0; i < r->rows * k; i++)
        if (!(fabs(j->target[i]) <= 1e30))
            return pare_fail(err, PARE_EFORMAT, "the statistics are not finite");
    return 0;
}

/* ---- the nearest levels ---------------------------------------------------------------------- */

/* Levels, scales and errors to improve on. */
static int start_nearest(struct job *j, struct pare_err *err)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k, blocks = r->grid.blocks;
    double *e = doubles(j->a, r->rows, k), *grad = doubles(j->a, r->rows, k);
    struct batch b = { r->rows, NULL, NULL, j->level, r->scale, r->zero, j->keep, 1 };

    if (!e || !grad)
        return pare_no_memory(err, "to round weights");
    for (int64_t i = 0; i < r->rows; i++) {
        double lo, hi;

        pare_row_range(j->w + i * k, k, &lo, &hi);
        if (!r->grid.given)
            pare_grid_fit(&r->grid, lo, hi, &r->scale[i], &r->zero[i]);
        for (int64_t c = 0; c < k; c++) {
            int64_t at = i * blocks + j->order[c] / r->grid.size;

            j->level[i * k + c] = is_fixed(&b, i, k, c)
                                      ? (int16_t)r->zero[at]
                                      : (int16_t)pare_nearest_level(&r->grid,
                                                                    (float)j->w[i * k + c],
                                                                    r->scale[at], r->zero[at]);
        }
    }
    measure(j, &b, j->target, e, grad, j->errors);
    r->nearest = 0;
    for (int64_t i = 0; i < r->rows; i++) {
        r->nearest += j->errors[i];
        if (!(j->errors[i] <= 1e300)) /* anything is better */
            j->errors[i] = INFINITY;
    }
    return 0;
}

/* Levels in the order of the file; what the bias takes. */
static void finish(const struct job *j)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k;

    r->error = 0;
    for (int64_t i = 0; i < r->rows; i++) {
        double shift = 0;

        r->error += j->errors[i];
        for (int64_t c = 0; c < k; c++) {
            int64_t o = j->order[c], at = i * r->grid.blocks + o / r->grid.size;
            double q = (double)j->level[i * k + c];

            r->level[i * k + o] = j->level[i * k + c];
            if (r->mean)
                shift += j->w[i * k + c] * d_mean(r)[o] -
                         (q - (double)r->zero[at]) * (double)r->scale[at] * r->mean[o];
        }
        if (r->shift)
            r->shift[i] = r->failed || !(fabs(shift) <= 1e30) ? 0 : shift;
    }
}

int pare_gram_round(struct pare_gram_round *r, struct pare_arena *a, struct pare_err *err)
{
    const int64_t k = r->k;
    double *room = doubles(a, k, k);
    struct job j = { .r = r,
                     .a = a,
                     .order = pare_alloc(a, (size_t)k + 1, sizeof(*j.order)),
                     .g = doubles(a, k, k),
                     .u = doubles(a, k, k),
                     .w = doubles(a, r->rows, k),
                     .target = doubles(a, r->rows, k),
                     .errors = doubles(a, r->rows, 1),
                     .level = pare_alloc(a, (size_t)(r->rows * k) + 1, sizeof(*j.level)) };

    if (!room || !j.order || !j.g || !j.u || !j.w || !j.target || !j.errors || !j.level)
        return pare_no_memory(err, "to round weights");
    if (r->keep && !(j.keep = pare_alloc(a, (size_t)(r->rows * k) + 1, 1)))
        return pare_no_memory(err, "to round weights");
    sort_columns(r, j.order);
    centered(&j, r->g, r->mean, j.g);
    for (int64_t i = 0; i < r->rows * k; i++)
        j.w[i] = r->w[i / k * k + j.order[i % k]];
    for (int64_t i = 0; i < r->rows * k && r->keep; i++)
        j.keep[i] = r->keep[i / k * k + j.order[i % k]];
    memcpy(j.target, j.w, (size_t)(r->rows * k) * sizeof(double));
    r->failed = !factor(&j, room);
    if (!r->failed && r->cross)
        PARE_TRY(find_target(&j, room, err));
    PARE_TRY(start_nearest(&j, err));
    if (!r->failed)
        PARE_TRY(round_rows(&j, err));
    finish(&j);
    return 0;
}
