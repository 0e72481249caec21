/* obs_columns.c - removal of groups of columns by optimal brain surgeon, in the order of cost. */
#include "obs_columns.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "../backend/gemm/cholesky.h"
#include "../base/arena.h"

#define STEPS 256 /* with more groups, several are removed before costs are computed anew */

struct job {
    struct pare_obs_columns *m;
    int n_matrices, threads;
    int64_t n;
    bool *gone;
    double *cost;            /* (n) */
    double *room;            /* for each thread */
    int64_t each;            /* doubles of it */
    double *z, *rows, *part; /* (k, s), (s, k), (rows, s) */
};

static int64_t size_of(const struct pare_obs_columns *m, int64_t i)
{
    return m->start[i + 1] - m->start[i];
}

/* h (s, s) = the Cholesky factor of inverse_SS. */
static bool factor(const struct pare_obs_columns *m, int64_t i, double *h, int threads)
{
    const int64_t s = size_of(m, i), *c = m->column + m->start[i];

    for (double more = 0; more<1; more = more> 0 ? more * 100 : 1e-9) {
        for (int64_t x = 0; x < s; x++)
            for (int64_t y = 0; y < s; y++)
                h[x * s + y] = m->inverse[c[x] * m->k + c[y]] * (x == y ? 1 + more : 1);
        if (pare_cholesky(h, s, threads))
            return true;
    }
    return false;
}

/* Sum over rows of w_S inverse(inverse_SS) w_S'; room: (s, s), (rows, s). */
static double cost_in(const struct pare_obs_columns *m, int64_t i, double *room)
{
    const int64_t s = size_of(m, i), *c = m->column + m->start[i];
    double *x = room + s * s, cost = 0;

    if (!s)
        return 0;
    if (!factor(m, i, room, 1))
        return (double)INFINITY;
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t e = 0; e < s; e++)
            x[r * s + e] = m->w[r * m->k + c[e]];
    pare_cholesky_solve(room, s, x, m->rows, 1);
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t e = 0; e < s; e++)
            cost += x[r * s + e] * m->w[r * m->k + c[e]];
    return cost > 0 ? cost : 0;
}

static void find_costs(const struct job *j)
{
    int threads = j->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic)
    for (int64_t i = 0; i < j->n; i++) {
        double *room = j->room + j->each * omp_get_thread_num();

        j->cost[i] = 0;
        for (int k = 0; k < j->n_matrices && !j->gone[i]; k++)
            j->cost[i] += cost_in(&j->m[k], i, room);
    }
}

static void add_product(const struct pare_obs_columns *m, const double *x, int64_t rows, int64_t s,
                        const struct pare_dmatrix *y, double *to)
{
    pare_dgemm(&(struct pare_dgemm){ .a = { x, NULL, s, 1 },
                                     .b = *y,
                                     .c = to,
                                     .m = rows,
                                     .n = m->k,
                                     .k = s,
                                     .ldc = m->k,
                                     .sign = -1,
                                     .threads = m->threads });
}

/* z = inverse_:S inverse(inverse_SS); w -= w_:S z', inverse -= z inverse_S:. */
static void remove_from(const struct job *j, struct pare_obs_columns *m, int64_t i)
{
    const int64_t s = size_of(m, i), k = m->k, *c = m->column + m->start[i];

    if (!s || !factor(m, i, j->room, m->threads))
        return;
    for (int64_t r = 0; r < k; r++)
        for (int64_t e = 0; e < s; e++)
            j->z[r * s + e] = j->rows[e * k + r] = m->inverse[r * k + c[e]];
    pare_cholesky_solve(j->room, s, j->z, k, m->threads);
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t e = 0; e < s; e++)
            j->part[r * s + e] = m->w[r * k + c[e]];
    add_product(m, j->part, m->rows, s, &(struct pare_dmatrix){ j->z, NULL, 1, s }, m->w);
    add_product(m, j->z, k, s, &(struct pare_dmatrix){ j->rows, NULL, k, 1 }, m->inverse);
}

static int open_job(struct job *j, struct pare_arena *a, struct pare_err *err)
{
    int64_t k = 0, s = 0, rows = 0;

    j->threads = j->m[0].threads;
    for (int i = 0; i < j->n_matrices; i++) {
        k = j->m[i].k > k ? j->m[i].k : k;
        rows = j->m[i].rows > rows ? j->m[i].rows : rows;
        for (int64_t g = 0; g < j->n; g++)
            s = size_of(&j->m[i], g) > s ? size_of(&j->m[i], g) : s;
    }
    j->each = s * s + rows * s;
    j->gone = pare_alloc(a, (size_t)j->n + 1, sizeof(*j->gone));
    j->cost = pare_alloc(a, (size_t)j->n + 1, sizeof(*j->cost));
    j->room = pare_alloc_raw(a, (size_t)(j->each * j->threads) + 1, sizeof(double));
    j->z = pare_alloc_raw(a, (size_t)(k * s) + 1, sizeof(double));
    j->rows = pare_alloc_raw(a, (size_t)(k * s) + 1, sizeof(double));
    j->part = pare_alloc_raw(a, (size_t)(rows * s) + 1, sizeof(double));
    if (!j->gone || !j->cost || !j->room || !j->z || !j->rows || !j->part)
        return pare_no_memory(err, "for error curves");
    return 0;
}

int pare_obs_remove_columns(const struct pare_obs_removal *r, struct pare_arena *a,
                            struct pare_err *err)
{
    struct job j = { .m = r->m, .n_matrices = r->n_matrices, .n = r->n };
    int64_t step = 1 + r->n / STEPS;
    double last = 0;

    PARE_TRY(open_job(&j, a, err));
    r->error[0] = 0;
    for (int64_t at = 0; at < r->n; at++) {
        int64_t best = -1;

        if (at % step == 0)
            find_costs(&j);
        for (int64_t i = 0; i < r->n; i++)
            if (!j.gone[i] && (best < 0 || j.cost[i] < j.cost[best]))
                best = i;
        last = j.cost[best] > last ? j.cost[best] : last;
        r->error[at + 1] = r->error[at] + last;
        r->order[at] = best;
        for (int i = 0; i < r->n_matrices; i++)
            remove_from(&j, &r->m[i], best);
        j.gone[best] = true;
    }
    return 0;
}
