/* round_job.c - errors of rounded rows in the norm of a Gram matrix, descent over single weights,
 * scales of groups. */
#include "round_job.h"

#include <math.h>
#include <string.h>

#include "../../backend/gemm/cholesky.h"
#include "../../base/arena.h"
#include "../../base/simd.h"

#define PASSES 12 /* of descent */

static double *doubles(struct pare_arena *a, int64_t n, int64_t m)
{
    return pare_alloc_raw(a, (size_t)n * (size_t)m + 1, sizeof(double));
}

int pare_round_rows_new(const struct pare_round_job *j, int64_t most, struct pare_round_rows *m,
                        struct pare_err *err)
{
    int64_t k = j->r->k;
    size_t scales = (size_t)most * (size_t)j->r->grid.blocks + 1;

    *m = (struct pare_round_rows){ .copies = 1 };
    m->w = doubles(j->a, most, k);
    m->target = doubles(j->a, most, k);
    m->e = doubles(j->a, most, k);
    m->grad = doubles(j->a, most, k);
    m->carried = doubles(j->a, most, PARE_ROUND_COLUMNS);
    m->errors = doubles(j->a, most, 1);
    m->level = pare_alloc(j->a, (size_t)most * (size_t)k + 1, sizeof(*m->level));
    m->scale = pare_alloc(j->a, scales, sizeof(*m->scale));
    m->zero = pare_alloc(j->a, scales, sizeof(*m->zero));
    if (!m->w || !m->target || !m->e || !m->grad || !m->carried || !m->errors || !m->level ||
        !m->scale || !m->zero)
        return pare_no_memory(err, "to round weights");
    return 0;
}

void pare_round_rows_take(const struct pare_round_job *j, int64_t from, int64_t n, int64_t copies,
                          struct pare_round_rows *m)
{
    const int64_t k = j->r->k;

    m->from = from;
    m->n = n * copies;
    m->copies = copies;
    m->keep = j->keep ? j->keep + from * k : NULL;
    for (int64_t i = 0; i < m->n; i++)
        memcpy(m->target + i * k, j->target + (from + i / copies) * k, (size_t)k * sizeof(double));
}

void pare_round_rows_resume(const struct pare_round_job *j, int64_t from, int64_t n,
                            struct pare_round_rows *m)
{
    const struct pare_gram_round *r = j->r;
    const int64_t k = r->k, blocks = r->grid.blocks;

    pare_round_rows_take(j, from, n, 1, m);
    memcpy(m->level, j->level + from * k, (size_t)(n * k) * sizeof(*m->level));
    memcpy(m->scale, r->scale + from * blocks, (size_t)(n * blocks) * sizeof(*m->scale));
    memcpy(m->zero, r->zero + from * blocks, (size_t)(n * blocks) * sizeof(*m->zero));
    pare_round_measure(j, m);
}

PARE_SIMD void pare_round_carry(double *w, const double *u, double e, int64_t n)
{
    for (int64_t t = 0; t < n; t++)
        w[t] -= e * u[t];
}

/* ---- errors ---------------------------------------------------------------------------------- */

void pare_round_measure(const struct pare_round_job *j, struct pare_round_rows *m)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k;

    for (int64_t i = 0; i < m->n; i++)
        for (int64_t c = 0; c < k; c++) {
            int64_t at = i * grid->blocks + j->order[c] / grid->size;

            m->e[i * k + c] = ((double)m->level[i * k + c] - (double)m->zero[at]) *
                                  (double)m->scale[at] -
                              m->target[i * k + c];
        }
    if (!j->g) {
        memcpy(m->grad, m->e, (size_t)(m->n * k) * sizeof(*m->grad));
    } else {
        memset(m->grad, 0, (size_t)(m->n * k) * sizeof(*m->grad));
        pare_dgemm(&(struct pare_dgemm){ .a = { m->e, NULL, k, 1 },
                                         .b = { j->g, NULL, k, 1 },
                                         .c = m->grad,
                                         .m = m->n,
                                         .n = k,
                                         .k = k,
                                         .ldc = k,
                                         .sign = 1,
                                         .threads = j->r->threads });
    }
    for (int64_t i = 0; i < m->n; i++) {
        m->errors[i] = 0;
        for (int64_t c = 0; c < k; c++)
            m->errors[i] += m->e[i * k + c] * m->grad[i * k + c];
    }
}

static void descend_row(const struct pare_round_job *j, struct pare_round_rows *m, int64_t row)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k;
    double *grad = m->grad + row * k;
    int16_t *level = m->level + row * k;
    int64_t moved = 1;

    for (int pass = 0; pass < PASSES && moved; pass++) {
        moved = 0;
        for (int64_t c = 0; c < k; c++) {
            int64_t at = row * grid->blocks + j->order[c] / grid->size;
            double s = (double)m->scale[at], power = j->g[c * k + c], old, new;

            if (!(power > 0) || pare_round_is_fixed(m, row, k, c))
                continue;
            old = (double)level[c];
            new = rint(old - grad[c] / (power * s));
            new = new < (double)grid->qmin ? (double)grid->qmin : new;
            new = new > (double)grid->qmax ? (double)grid->qmax : new;
            if (!(fabs(new - old) >= 1)) /* also if it is NaN */
                continue;
            level[c] = (int16_t) new;
            pare_round_carry(grad, j->g + c * k, -s * (new - old), k);
            moved++;
        }
    }
}

/* The sums are computed anew: those that descent updates lose digits. */
void pare_round_descend(const struct pare_round_job *j, struct pare_round_rows *m)
{
    int threads = j->r->threads;
    bool many = threads > 1 && m->n * j->r->k > 4096;

#pragma omp parallel for num_threads(threads) if (many) schedule(dynamic)
    for (int64_t i = 0; i < m->n; i++)
        descend_row(j, m, i);
    pare_round_measure(j, m);
}

void pare_round_keep(const struct pare_round_job *j, const struct pare_round_rows *m)
{
    struct pare_gram_round *r = j->r;
    const int64_t k = r->k, blocks = r->grid.blocks;

    for (int64_t i = 0; i < m->n / m->copies; i++) {
        int64_t best = i * m->copies, row = m->from + i;

        for (int64_t t = 1; t < m->copies; t++)
            best = m->errors[i * m->copies + t] < m->errors[best] ? i * m->copies + t : best;
        if (!(m->errors[best] < j->errors[row]))
            continue;
        j->errors[row] = m->errors[best];
        memcpy(j->level + row * k, m->level + best * k, (size_t)k * sizeof(*m->level));
        if (r->grid.given)
            continue;
        memcpy(r->scale + row * blocks, m->scale + best * blocks,
               (size_t)blocks * sizeof(*m->scale));
        memcpy(r->zero + row * blocks, m->zero + best * blocks, (size_t)blocks * sizeof(*m->zero));
    }
}

/* ---- scales and nearest levels --------------------------------------------------------------- */

int pare_round_fit(const struct pare_round_job *j, const struct pare_rounding_method *by,
                   const double *x, struct pare_round_rows *m, struct pare_err *err)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k, blocks = grid->blocks;
    struct pare_mark mark = pare_mark(j->a);
    int threads = j->r->threads;
    double *room;

    if (grid->given) {
        memcpy(m->scale, j->r->scale + m->from * blocks, (size_t)(m->n * blocks) * sizeof(float));
        memcpy(m->zero, j->r->zero + m->from * blocks, (size_t)(m->n * blocks) * sizeof(float));
        return 0;
    }
    room = doubles(j->a, m->n, k);
    if (!room)
        return pare_no_memory(err, "to fit scales of weights");
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < m->n; i++) {
        double *w = room + i * k;

        for (int64_t c = 0; c < k; c++)
            w[j->order[c]] = pare_round_is_fixed(m, i, k, c) ? 0 : x[i * k + c];
        for (int64_t b = 0; b < blocks; b++) {
            int64_t from = b * grid->size, n = k - from < grid->size ? k - from : grid->size;
            struct pare_fit f = { .grid = grid, .w = w + from, .n = n };

            by->fit(&f, &m->scale[i * blocks + b], &m->zero[i * blocks + b]);
        }
    }
    pare_rewind(j->a, mark);
    return 0;
}

void pare_round_nearest(const struct pare_round_job *j, const double *x, struct pare_round_rows *m)
{
    const struct pare_round_grid *grid = &j->r->grid;
    const int64_t k = j->r->k;

    for (int64_t i = 0; i < m->n; i++)
        for (int64_t c = 0; c < k; c++) {
            int64_t at = i * grid->blocks + j->order[c] / grid->size;

            m->level[i * k + c] = pare_round_is_fixed(m, i, k, c)
                                      ? (int16_t)m->zero[at]
                                      : (int16_t)pare_nearest_level(grid, (float)x[i * k + c],
                                                                    m->scale[at], m->zero[at]);
        }
}
