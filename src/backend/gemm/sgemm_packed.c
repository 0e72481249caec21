/* sgemm_packed.c - float32 matrix product of any sizes and strides by packed GEMM.
 *
 * A task is a tile of at most ROWS x COLUMNS of C: whole blocks of columns, or the columns after
 * the last whole block.  It packs DEPTH rows of op(B) at a time, and as many columns of op(A) if A
 * is transposed, and adds their product to C.  For few rows packing does not pay off: vector loops
 * read B directly.
 */
#include "sgemm_packed.h"

#include <omp.h>
#include <string.h>

#include "gemm_packed.h"

#include "../../base/simd.h"
#include "../../base/team.h"

#define ROWS 96
#define COLUMNS 64 /* a multiple of the blocks */
#define DEPTH 256
#define FEW 3       /* rows for which B is not packed */
#define SMALL 65536 /* multiplications that one thread does */

struct tile {
    int64_t row, rows, column, columns; /* of C */
    int64_t k, depth;                   /* the part of the sum */
    bool add;
};

/* op(B) as panels; a block that is not full is padded with zeros. */
PARE_SIMD static void pack_b(const struct pare_sgemm *p, const struct tile *t, int block, float *to)
{
    const float *b = p->tb ? p->b + t->column * p->ldb + t->k : p->b + t->k * p->ldb + t->column;
    const int64_t blocks = (t->columns + block - 1) / block;

    if (t->columns < block)
        memset(to, 0, (size_t)(t->depth * block) * sizeof(*to));
    for (int64_t i = 0; i < blocks; i++) {
        int64_t at = pare_packed_gemm_at(t->depth, blocks, block, 0, i * block);
        int64_t step = pare_packed_gemm_at(t->depth, blocks, block, 1, i * block) - at;
        int64_t n = t->columns < block ? t->columns : block;

        for (int64_t k = 0; k < t->depth && !p->tb; k++)
            memcpy(to + at + k * step, b + k * p->ldb + i * block, (size_t)n * sizeof(*to));
        for (int64_t c = 0; c < n && p->tb; c++)
            for (int64_t k = 0; k < t->depth; k++)
                to[at + k * step + c] = b[(i * block + c) * p->ldb + k];
    }
}

/* op(A) = A' as rows. */
PARE_SIMD static void pack_a(const struct pare_sgemm *p, const struct tile *t, float *to)
{
    for (int64_t k = 0; k < t->depth; k++) {
        const float *a = p->a + (t->k + k) * p->lda + t->row;

        for (int64_t r = 0; r < t->rows; r++)
            to[r * t->depth + k] = a[r];
    }
}

static void multiply_depth(const struct pare_sgemm *p, const struct tile *t, int block)
{
    float a[ROWS * DEPTH], b[COLUMNS * DEPTH], sums[ROWS * 16];
    float *c = p->c + t->row * p->ldc + t->column;
    const bool whole = t->columns >= block;
    struct pare_packed_gemm g = { .x = p->ta ? a : p->a + t->row * p->lda + t->k,
                                  .x_row = p->ta ? t->depth : p->lda,
                                  .w = b,
                                  .y = whole ? c : sums,
                                  .y_row = whole ? p->ldc : block,
                                  .y_block = block,
                                  .start = whole && t->add ? c : NULL,
                                  .rows = t->rows,
                                  .blocks = whole ? t->columns / block : 1,
                                  .runs = 1,
                                  .run = t->depth,
                                  .block = block };

    pack_b(p, t, block, b);
    if (p->ta)
        pack_a(p, t, a);
    pare_packed_gemm_run(&g);
    for (int64_t r = 0; r < t->rows && !whole; r++)
        for (int64_t i = 0; i < t->columns; i++)
            c[r * p->ldc + i] = sums[r * block + i] + (t->add ? c[r * p->ldc + i] : 0);
}

static void multiply_tile(const struct pare_sgemm *p, int64_t i, int64_t j, int block)
{
    const int64_t full = p->N / block * block;
    struct tile t = { .row = i * ROWS, .rows = p->M - i * ROWS, .column = j * COLUMNS };

    t.rows = t.rows < ROWS ? t.rows : ROWS;
    t.columns = full - t.column < COLUMNS ? full - t.column : COLUMNS;
    if (t.columns <= 0) {
        t.column = full;
        t.columns = p->N - full;
    }
    for (t.k = 0; t.k < p->K; t.k += DEPTH) {
        t.depth = p->K - t.k < DEPTH ? p->K - t.k : DEPTH;
        t.add = p->add || t.k;
        multiply_depth(p, &t, block);
    }
}

/* c += a times a row of B. */
PARE_SIMD static void add_row(float a, const float *b, int64_t n, float *c)
{
    for (int64_t i = 0; i < n; i++)
        c[i] = PARE_FMA(a, b[i], c[i]);
}

/* The product of two rows, in 32 partial sums. */
PARE_SIMD static float dot(const float *a, const float *b, int64_t n)
{
    float sum[32] = { 0 }, total = 0;
    int64_t k = 0;

    for (; k + 32 <= n; k += 32)
        for (int i = 0; i < 32; i++)
            sum[i] = PARE_FMA(a[k + i], b[k + i], sum[i]);
    for (; k < n; k++)
        total = PARE_FMA(a[k], b[k], total);
    for (int i = 0; i < 32; i++)
        total += sum[i];
    return total;
}

/* Columns [from, to) of few rows. */
static void multiply_rows(const struct pare_sgemm *p, int64_t from, int64_t to)
{
    for (int64_t m = 0; m < p->M; m++) {
        float *c = p->c + m * p->ldc;

        for (int64_t n = from; n < to && p->tb; n++)
            c[n] = dot(p->a + m * p->lda, p->b + n * p->ldb, p->K) + (p->add ? c[n] : 0);
        if (p->tb)
            continue;
        if (!p->add)
            memset(c + from, 0, (size_t)(to - from) * sizeof(*c));
        for (int64_t k = 0; k < p->K; k++)
            add_row(p->a[m * p->lda + k], p->b + k * p->ldb + from, to - from, c + from);
    }
}

struct job {
    const struct pare_sgemm *p;
    int block;
    int64_t columns; /* tiles of a row of tiles */
};

static void few_rows(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t end = (i + 1) * COLUMNS;

        multiply_rows(j->p, i * COLUMNS, end < j->p->N ? end : j->p->N);
    }
}

static void tiles(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;

    (void)thread;
    for (int64_t i = from; i < to; i++)
        multiply_tile(j->p, i / j->columns, i % j->columns, j->block);
}

void pare_sgemm_packed(const struct pare_sgemm *p, int block)
{
    const int64_t full = p->N / block * block, size = p->M * p->N * p->K;
    const int64_t rows = (p->M + ROWS - 1) / ROWS,
                  columns = (full + COLUMNS - 1) / COLUMNS + (full < p->N);
    const int threads = size > SMALL && !omp_in_parallel() ? omp_get_max_threads() : 1;
    struct job j = { p, block, columns };

    if (p->M <= 0 || p->N <= 0)
        return;
    for (int64_t m = 0; m < p->M && p->K <= 0 && !p->add; m++)
        memset(p->c + m * p->ldc, 0, (size_t)p->N * sizeof(*p->c));
    if (p->M <= FEW && !p->ta) {
        pare_parallel(threads, (p->N + COLUMNS - 1) / COLUMNS, few_rows, &j);
        return;
    }
    pare_parallel(threads, rows * columns, tiles, &j);
}
