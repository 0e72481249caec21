/* least_squares.c - the best weights of a layer whose inputs have changed, by a Cholesky factor. */
#include "least_squares.h"

#include <math.h>
#include <string.h>

#include "../backend/gemm/cholesky.h"

/* The kept columns alone, centered. */
struct job {
    struct pare_least_squares *s;
    int64_t n, *at;     /* columns that are kept */
    double *g;          /* (n, n) */
    double *c;          /* (k, n) */
    double *w, *result; /* (rows, n): W_k, W'_k */
    double *wc;         /* (rows, n): W C_:k */
};

static double *doubles(struct pare_arena *a, int64_t n, int64_t m)
{
    return pare_alloc(a, (size_t)n * (size_t)m + 1, sizeof(double));
}

static int take_columns(struct job *j, struct pare_arena *a, struct pare_err *err)
{
    const struct pare_least_squares *s = j->s;
    const int64_t k = s->k;

    j->at = pare_alloc(a, (size_t)k + 1, sizeof(*j->at));
    for (int64_t i = 0; i < k && j->at; i++)
        if (s->keep[i])
            j->at[j->n++] = i;
    j->g = doubles(a, j->n, j->n);
    j->c = doubles(a, k, j->n);
    j->w = doubles(a, s->rows, j->n);
    j->wc = doubles(a, s->rows, j->n);
    j->result = doubles(a, s->rows, j->n);
    if (!j->at || !j->g || !j->c || !j->w || !j->wc || !j->result)
        return pare_no_memory(err, "for least squares");
    for (int64_t p = 0; p < j->n; p++) {
        int64_t b = j->at[p];

        for (int64_t q = 0; q < j->n; q++)
            j->g[q * j->n + p] = s->g[j->at[q] * k + b] -
                                 (s->mean ? s->mean[j->at[q]] * s->mean[b] : 0);
        for (int64_t i = 0; i < k; i++)
            j->c[i * j->n + p] = s->cross[i * k + b] -
                                 (s->mean ? s->cross_mean[i] * s->mean[b] : 0);
        for (int64_t r = 0; r < s->rows; r++)
            j->w[r * j->n + p] = s->w[r * k + b];
    }
    return 0;
}

/* to (rows, n) += sign x (rows, k) y (k, n). */
static void add_product(const struct job *j, const double *x, int64_t k, const double *y,
                        double sign, double *to)
{
    pare_dgemm(&(struct pare_dgemm){ .a = { x, NULL, k, 1 },
                                     .b = { y, NULL, j->n, 1 },
                                     .c = to,
                                     .m = j->s->rows,
                                     .n = j->n,
                                     .k = k,
                                     .ldc = j->n,
                                     .sign = sign,
                                     .threads = j->s->threads });
}

/* tr V G V' - 2 tr V (W C)' of some V (rows, n); room (rows, n). */
static double error_of(const struct job *j, const double *v, double *room)
{
    double sum = 0;

    memset(room, 0, (size_t)(j->s->rows * j->n) * sizeof(*room));
    add_product(j, v, j->n, j->g, 1, room);
    for (int64_t i = 0; i < j->s->rows * j->n; i++)
        sum += v[i] * (room[i] - 2 * j->wc[i]);
    return sum;
}

/* result = (W C_:k - W_k G_kk) inverse(G_kk + damping); room (n, n). */
static bool solve(struct job *j, double *room)
{
    const int64_t n = j->n;
    double mean = 0, damping = j->s->damping > 0 ? j->s->damping : 1e-9;

    for (int64_t i = 0; i < n; i++)
        mean += j->g[i * n + i] / (double)n;
    if (!(mean > 0))
        return false;
    memcpy(j->result, j->wc, (size_t)(j->s->rows * n) * sizeof(*room));
    add_product(j, j->w, n, j->g, -1, j->result);
    for (; damping <= 1; damping *= 10) {
        memcpy(room, j->g, (size_t)(n * n) * sizeof(*room));
        for (int64_t i = 0; i < n; i++)
            room[i * n + i] += damping * mean;
        if (!pare_cholesky(room, n, j->s->threads))
            continue;
        pare_cholesky_solve(room, n, j->result, j->s->rows, j->s->threads);
        return true;
    }
    return false;
}

static void put_columns(const struct job *j)
{
    struct pare_least_squares *s = j->s;

    memset(s->out, 0, (size_t)(s->rows * s->k) * sizeof(*s->out));
    for (int64_t r = 0; r < s->rows; r++) {
        double shift = 0;

        for (int64_t p = 0; p < j->n; p++)
            s->out[r * s->k + j->at[p]] = j->result[r * j->n + p];
        for (int64_t i = 0; i < s->k && s->mean; i++)
            shift += s->w[r * s->k + i] * s->cross_mean[i] - s->out[r * s->k + i] * s->mean[i];
        s->shift[r] = fabs(shift) <= 1e30 ? shift : 0;
    }
}

int pare_least_squares(struct pare_least_squares *s, struct pare_arena *a, struct pare_err *err)
{
    struct job j = { .s = s };
    double *room, *rows;

    PARE_TRY(take_columns(&j, a, err));
    room = doubles(a, j.n, j.n);
    rows = doubles(a, s->rows, j.n);
    if (!room || !rows)
        return pare_no_memory(err, "for least squares");
    add_product(&j, s->w, s->k, j.c, 1, j.wc);
    s->before = error_of(&j, j.w, rows);
    s->failed = !solve(&j, room);
    for (int64_t i = 0; i < s->rows * j.n; i++)
        j.result[i] = j.w[i] + (s->failed ? 0 : j.result[i]);
    s->after = error_of(&j, j.result, rows);
    if (!(s->after <= s->before)) { /* also if it is NaN */
        s->failed = true;
        s->after = s->before;
        memcpy(j.result, j.w, (size_t)(s->rows * j.n) * sizeof(*j.w));
    }
    put_columns(&j);
    return 0;
}
