/* gram_round.c - rounding of a weight matrix on a Gram matrix: the order of columns, the target,
 * the nearest levels, then the method. */
#include "gram_round.h"

#include <math.h>
#include <string.h>

#include "../../backend/gemm/cholesky.h"
#include "../../base/arena.h"
#include "round_job.h"

static double *doubles(struct pare_arena *a, int64_t n, int64_t m)
{
    return pare_alloc_raw(a, (size_t)n * (size_t)m + 1, sizeof(double));
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
static void centered(const struct pare_round_job *j, const double *x, const double *rows,
                     double *to)
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
static bool factor(const struct pare_round_job *j, double *room)
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
static int find_target(const struct pare_round_job *j, double *room, struct pare_err *err)
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

/* Scales by a method, and the levels that are nearest to W: what to improve on, and the methods
 * that only choose scales.  Without data what the method says is taken as it is. */
static int round_by_fit(struct pare_round_job *j, const struct pare_rounding_method *by,
                        struct pare_err *err)
{
    struct pare_gram_round *r = j->r;
    int64_t each = PARE_ROUND_CHUNK / (r->k * (int64_t)sizeof(double));
    struct pare_mark mark = pare_mark(j->a);
    struct pare_round_rows m;

    each = each < 1 ? 1 : each > r->rows ? r->rows : each;
    PARE_TRY(pare_round_rows_new(j, each, &m, err));
    for (int64_t from = 0; from < r->rows; from += each) {
        pare_round_rows_take(j, from, r->rows - from < each ? r->rows - from : each, 1, &m);
        PARE_TRY(pare_round_fit(j, by, j->w + from * r->k, &m, err));
        pare_round_nearest(j, j->w + from * r->k, &m);
        pare_round_measure(j, &m);
        for (int64_t i = 0; i < m.n && !j->g; i++)
            j->errors[from + i] = INFINITY;
        for (int64_t i = 0; i < m.n; i++) /* anything is better */
            m.errors[i] = m.errors[i] <= 1e300 ? m.errors[i] : 1e300;
        pare_round_keep(j, &m);
    }
    pare_rewind(j->a, mark);
    return 0;
}

/* Levels, scales and errors to improve on. */
static int start_nearest(struct pare_round_job *j, struct pare_err *err)
{
    struct pare_gram_round *r = j->r;

    for (int64_t i = 0; i < r->rows; i++)
        j->errors[i] = INFINITY;
    PARE_TRY(round_by_fit(j, pare_find_rounding("nearest"), err));
    r->nearest = 0;
    for (int64_t i = 0; i < r->rows; i++)
        r->nearest += j->errors[i];
    return 0;
}

/* Levels in the order of the file; what the bias takes. */
static void finish(const struct pare_round_job *j)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k;

    r->error = 0;
    r->nearest = r->failed ? 0 : r->nearest;
    for (int64_t i = 0; i < r->rows; i++) {
        double shift = 0;

        r->error += r->failed ? 0 : j->errors[i];
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

/* Allocates the job, and copies the weights in the order of the columns. */
static int begin(struct pare_round_job *j, struct pare_err *err)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k, n = r->rows * k;

    j->order = pare_alloc(j->a, (size_t)k + 1, sizeof(*j->order));
    j->w = doubles(j->a, r->rows, k);
    j->target = doubles(j->a, r->rows, k);
    j->errors = doubles(j->a, r->rows, 1);
    j->level = pare_alloc(j->a, (size_t)n + 1, sizeof(*j->level));
    j->keep = r->keep ? pare_alloc(j->a, (size_t)n + 1, 1) : NULL;
    if (!j->order || !j->w || !j->target || !j->errors || !j->level || (r->keep && !j->keep))
        return pare_no_memory(err, "to round weights");
    if (r->g)
        sort_columns(r, j->order);
    for (int64_t i = 0; i < k && !r->g; i++)
        j->order[i] = i;
    for (int64_t i = 0; i < n; i++)
        j->w[i] = r->w[i / k * k + j->order[i % k]];
    for (int64_t i = 0; i < n && r->keep; i++)
        j->keep[i] = r->keep[i / k * k + j->order[i % k]];
    memcpy(j->target, j->w, (size_t)n * sizeof(double));
    return 0;
}

/* G in the order of the columns, its factor, and the target. */
static int prepare(struct pare_round_job *j, struct pare_err *err)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k;
    double *room = doubles(j->a, k, k);

    j->g = doubles(j->a, k, k);
    j->u = doubles(j->a, k, k);
    if (!room || !j->g || !j->u)
        return pare_no_memory(err, "to round weights");
    centered(j, r->g, r->mean, j->g);
    r->failed = !factor(j, room);
    return r->failed || !r->cross ? 0 : find_target(j, room, err);
}

int pare_gram_round(struct pare_gram_round *r, struct pare_arena *a, struct pare_err *err)
{
    struct pare_round_job j = { .r = r, .a = a };

    r->failed = false;
    PARE_TRY(begin(&j, err));
    if (r->g)
        PARE_TRY(prepare(&j, err));
    PARE_TRY(start_nearest(&j, err));
    if (!r->failed && r->method->fit)
        PARE_TRY(round_by_fit(&j, r->method, err));
    if (!r->failed && r->method->round)
        PARE_TRY(r->method->round(&j, err));
    finish(&j);
    return 0;
}
