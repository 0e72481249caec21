/* round_refit.c - scales by least squares for levels that are chosen, in the norm of the Gram
 * matrix.
 *
 * With v_b the levels of block b of a row, less the zero point, the error of sum_b s_b v_b is
 * quadratic in the scales s: they solve  (v_b G v_c') s = v_b G W*'.
 */
#include <math.h>
#include <string.h>

#include "../../backend/gemm/cholesky.h"
#include "../../base/arena.h"
#include "round_job.h"

/* Memory of a thread. */
struct room {
    double *t, *a, *u, *rhs, *half; /* (blocks, k), (blocks, blocks) twice, (blocks) twice */
};

/* t_b = v_b G, rhs_b = t_b W*', a_bc = t_b v_c'. */
static void equations(const struct pare_round_job *j, const struct pare_round_rows *m, int64_t row,
                      const struct room *x)
{
    const int64_t k = j->r->k, n = j->r->grid.blocks, size = j->r->grid.size;
    const int16_t *level = m->level + row * k;

    memset(x->t, 0, (size_t)(n * k) * sizeof(double));
    memset(x->a, 0, (size_t)(n * n) * sizeof(double));
    for (int64_t c = 0; c < k; c++) {
        int64_t b = j->order[c] / size;
        double v = (double)level[c] - (double)m->zero[row * n + b];

        if (v > 0 || v < 0)
            pare_round_carry(x->t + b * k, j->g + c * k, -v, k);
    }
    for (int64_t b = 0; b < n; b++) {
        const double *t = x->t + b * k;

        x->rhs[b] = 0;
        for (int64_t c = 0; c < k; c++) {
            int64_t d = j->order[c] / size;

            x->a[b * n + d] += t[c] * ((double)level[c] - (double)m->zero[row * n + d]);
            x->rhs[b] += t[c] * m->target[row * k + c];
        }
    }
}

/* Blocks whose levels are all the zero point keep their scale. */
static bool solve(const struct room *x, int64_t n, const float *old)
{
    double mean = 0;

    for (int64_t b = 0; b < n; b++)
        mean += x->a[b * n + b] / (double)n;
    if (!(mean > 0) || !isfinite(mean))
        return false;
    for (int64_t b = 0; b < n; b++) {
        double hold = x->a[b * n + b] > 0 ? 1e-9 * mean : mean;

        x->a[b * n + b] += hold;
        x->rhs[b] += hold * (double)old[b];
    }
    if (!pare_inverse_factor(x->a, n, x->u, 1))
        return false;
    for (int64_t b = 0; b < n; b++) {
        x->half[b] = 0;
        for (int64_t c = b; c < n; c++)
            x->half[b] += x->u[b * n + c] * x->rhs[c];
    }
    for (int64_t c = 0; c < n; c++) {
        x->rhs[c] = 0;
        for (int64_t b = 0; b <= c; b++)
            x->rhs[c] += x->u[b * n + c] * x->half[b];
    }
    return true;
}

static void refit_row(const struct pare_round_job *j, struct pare_round_rows *m, int64_t row,
                      const struct room *x)
{
    const int64_t n = j->r->grid.blocks;
    float *scale = m->scale + row * n;

    equations(j, m, row, x);
    if (!solve(x, n, scale))
        return;
    for (int64_t b = 0; b < n; b++) {
        double part = x->rhs[b] / (double)scale[b];

        if (part > 0.5 && part < 2) /* else the levels, not the scale, are to blame */
            scale[b] = (float)x->rhs[b];
    }
}

int pare_round_refit(const struct pare_round_job *j, struct pare_round_rows *m,
                     struct pare_err *err)
{
    const int64_t n = j->r->grid.blocks;
    struct pare_mark mark = pare_mark(j->a);
    struct room x = { .t = pare_alloc(j->a, (size_t)(n * j->r->k) + 1, sizeof(double)),
                      .a = pare_alloc(j->a, (size_t)(n * n) + 1, sizeof(double)),
                      .u = pare_alloc(j->a, (size_t)(n * n) + 1, sizeof(double)),
                      .rhs = pare_alloc(j->a, (size_t)n + 1, sizeof(double)),
                      .half = pare_alloc(j->a, (size_t)n + 1, sizeof(double)) };

    if (!x.t || !x.a || !x.u || !x.rhs || !x.half)
        return pare_no_memory(err, "to fit scales of weights");
    for (int64_t i = 0; i < m->n; i++)
        refit_row(j, m, i, &x);
    pare_rewind(j->a, mark);
    pare_round_measure(j, m);
    return 0;
}
