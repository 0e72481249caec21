/* round_gptq.c - rounding gptq: columns in order of their power, each rounding error carried over
 * to the columns that follow; then descent over single weights.
 *
 * With inverse(H) = U' U, U upper, rounding column j with error e changes the columns after it by
 * -e / U_jj U_j,: (Frantar et al. 2022).  Scales are chosen per row by trying several, each with
 * all of its propagation, while that is cheap; else by the norm of the rounding error.  Scales of
 * groups are those of option rounding_scales.  At last scales are fitted to the levels by least
 * squares, and levels descend again.
 */
#include <string.h>

#include "../../backend/gemm/cholesky.h"
#include "round_job.h"

#define TRIES 20   /* scales that are tried with propagation */
#define LEAST 0.25 /* smallest part of the whole range that is tried */
#define CHEAP 8e9  /* multiplications for all of them */
#define MANY 200   /* levels, with which a scale of a part of the range hardly pays off */
#define REFITS 3   /* scales for the levels, then levels for the scales */

/* Columns [from, to) of a row. */
static void round_columns(const struct pare_round_job *j, const struct pare_round_rows *m,
                          int64_t row, int64_t from, int64_t to)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k;
    double *w = m->w + row * k, *carried = m->carried + row * PARE_ROUND_COLUMNS;

    for (int64_t c = from; c < to; c++) {
        int64_t at = row * grid->blocks + j->order[c] / grid->size;
        double s = (double)m->scale[at], z = (double)m->zero[at];
        double q = pare_round_is_fixed(m, row, k, c) ? z : pare_grid_level(grid, w[c], s, z);
        double e = (w[c] - (q - z) * s) / j->u[c * k + c];

        m->level[row * k + c] = (int16_t)q;
        carried[c - from] = e;
        pare_round_carry(w + c + 1, j->u + c * k + c + 1, e, to - c - 1);
    }
}

static void round_in_order(const struct pare_round_job *j, struct pare_round_rows *m)
{
    const int64_t k = j->r->k;
    int threads = j->r->threads;

    memcpy(m->w, m->target, (size_t)(m->n * k) * sizeof(double));
    for (int64_t from = 0; from < k; from += PARE_ROUND_COLUMNS) {
        int64_t to = k - from < PARE_ROUND_COLUMNS ? k : from + PARE_ROUND_COLUMNS;

#pragma omp parallel for num_threads(threads) if (threads > 1 && m->n * k > 4096) schedule(static)
        for (int64_t i = 0; i < m->n; i++)
            round_columns(j, m, i, from, to);
        pare_dgemm(&(struct pare_dgemm){ .a = { m->carried, NULL, PARE_ROUND_COLUMNS, 1 },
                                         .b = { j->u + from * k + to, NULL, k, 1 },
                                         .c = m->w + to,
                                         .m = m->n,
                                         .n = k - to,
                                         .k = to - from,
                                         .ldc = k,
                                         .sign = -1,
                                         .threads = threads });
    }
}

static int64_t tries_of(const struct pare_gram_round *r)
{
    double each = (double)r->rows * (double)r->k * (double)r->k * 2;
    double n = each > 0 ? CHEAP / each : TRIES;

    if (r->grid.qmax - r->grid.qmin >= MANY)
        return 1;
    return r->grid.given || r->grid.blocks > 1 || n < 3 ? 1 : n > TRIES ? TRIES : (int64_t)n;
}

/* Scales of the copies of each row: parts of its range. */
static void parts_of_range(const struct pare_round_job *j, struct pare_round_rows *m)
{
    const struct pare_gram_round *r = j->r;
    int threads = r->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < m->n; i++) {
        double lo, hi;
        double part = 1 - (1 - LEAST) * (double)(i % m->copies) / (double)(m->copies - 1);

        pare_row_range(m->target + i * r->k, r->k, &lo, &hi);
        pare_grid_fit(&r->grid, part * lo, part * hi, &m->scale[i], &m->zero[i]);
    }
}

/* One candidate per row: of whole rows that with the least norm of the rounding error. */
static int fit_rows(const struct pare_round_job *j, struct pare_round_rows *m, struct pare_err *err)
{
    const struct pare_gram_round *r = j->r;
    int threads = r->threads;

    if (r->grid.given || r->grid.blocks > 1)
        return pare_round_fit(j, r->scales, m->target, m, err);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < m->n; i++)
        pare_grid_fit_norm(&r->grid, m->target + i * r->k, r->k, &m->scale[i], &m->zero[i]);
    return 0;
}

/* Scales by least squares, and descent from there, while rows improve. */
static int refit_rows(struct pare_round_job *j, int64_t from, int64_t n, struct pare_round_rows *m,
                      struct pare_err *err)
{
    for (int i = 0; i < REFITS && !j->r->grid.given; i++) {
        pare_round_rows_resume(j, from, n, m);
        PARE_TRY(pare_round_refit(j, m, err));
        pare_round_descend(j, m);
        pare_round_keep(j, m);
    }
    return 0;
}

int pare_round_gptq(struct pare_round_job *j, struct pare_err *err)
{
    struct pare_gram_round *r = j->r;
    const int64_t tries = tries_of(r);
    int64_t each = PARE_ROUND_CHUNK / (tries * r->k * (int64_t)sizeof(double));
    struct pare_round_rows m;

    each = each < 1 ? 1 : each > r->rows ? r->rows : each;
    PARE_TRY(pare_round_rows_new(j, each * tries, &m, err));
    for (int64_t from = 0; from < r->rows; from += each) {
        int64_t n = r->rows - from < each ? r->rows - from : each;

        pare_round_rows_take(j, from, n, tries, &m);
        if (tries > 1)
            parts_of_range(j, &m);
        else
            PARE_TRY(fit_rows(j, &m, err));
        round_in_order(j, &m);
        pare_round_measure(j, &m);
        pare_round_descend(j, &m);
        pare_round_keep(j, &m);
        PARE_TRY(refit_rows(j, from, n, &m, err));
    }
    return 0;
}

const struct pare_rounding_method pare_rounding_gptq = {
    .name = "gptq",
    .doc = "Carry each rounding error over to weights that are not rounded yet, by the second "
           "moments of the layer's inputs.",
    .needs_data = true,
    .round = pare_round_gptq,
};
