/* gemm_packed_matrix.c - packed GEMM of whole matrices, on all threads. */
#include "gemm_packed_matrix.h"

#include <string.h>

#include "../simd/transpose8x8.h"

#include "../backend.h"
#include "../../base/team.h"

#define GROUP 96 /* rows at a time */
#define CACHE_BYTES (640 << 10)

/* Pack 8 columns, from `first` on, of a transposed matrix. */
PARE_SIMD static void pack_transposed(const struct pare_packed_gemm_weights *w, int64_t first,
                                      int64_t step, float *to)
{
    const unsigned char *from = (const unsigned char *)w->w + (size_t)(first * w->K) * 4;
    const size_t row = (size_t)w->K * sizeof(float);
    int64_t k = 0;

    for (; k + 8 <= w->K; k += 8) {
        pare_v8 r[8];

        for (int i = 0; i < 8; i++)
            memcpy(&r[i], from + (size_t)i * row + (size_t)k * sizeof(float), sizeof(r[i]));
        pare_transpose8x8(r);
        for (int i = 0; i < 8; i++)
            PARE_PUT8(to + (k + i) * step, r[i]);
    }
    for (; k < w->K; k++)
        for (int i = 0; i < 8; i++)
            memcpy(to + k * step + i, from + (size_t)i * row + (size_t)k * sizeof(float),
                   sizeof(float));
}

/* Pack the last columns, from `first` on, less than a block, with zeros after them. */
static void pack_rest(const struct pare_packed_gemm_weights *w, int64_t first, int64_t block,
                      int64_t step, float *to)
{
    const unsigned char *from = w->w;

    for (int64_t k = 0; k < w->K; k++)
        for (int64_t c = 0; c < block; c++) {
            int64_t at = w->transposed ? (first + c) * w->K + k : k * w->N + first + c;

            to[k * step + c] = 0;
            if (first + c < w->N)
                memcpy(to + k * step + c, from + (size_t)at * sizeof(float), sizeof(float));
        }
}

void pare_packed_gemm_pack(const struct pare_backend *b, const struct pare_packed_gemm_weights *w,
                           float *to)
{
    const int64_t blocks = pare_packed_gemm_columns(w->N, b->block) / b->block, block = b->block;
    const unsigned char *from = w->w;

#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < blocks; i++) {
        int64_t at = pare_packed_gemm_at(w->K, blocks, b->block, 0, i * block);
        int64_t step = pare_packed_gemm_at(w->K, blocks, b->block, 1, i * block) - at;

        if ((i + 1) * block > w->N) {
            pack_rest(w, i * block, block, step, to + at);
            continue;
        }
        for (int64_t c = 0; c < block && w->transposed; c += 8)
            pack_transposed(w, i * block + c, step, to + at + c);
        for (int64_t k = 0; k < w->K && !w->transposed; k++)
            memcpy(to + at + k * step, from + (size_t)(k * w->N + i * block) * sizeof(float),
                   (size_t)block * sizeof(float));
    }
}

void pare_packed_gemm_pack_bf16(const struct pare_backend *b,
                                const struct pare_packed_gemm_weights *w, float *scratch, float *to)
{
    const int64_t half = pare_bf16_half(w->K);
    const struct pare_packed_gemm_weights pairs = { scratch, half, w->N, w->transposed };
    const unsigned char *from = w->w;

#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < (w->transposed ? w->N : half); i++) {
        const unsigned char *row = from + (size_t)(i * (w->transposed ? w->K : 2 * w->N)) * 4;

        if (w->transposed)
            pare_bf16_pairs(row, w->K, scratch + i * half);
        else
            pare_bf16_zip(row, 2 * i + 1 < w->K ? row + (size_t)w->N * 4 : NULL, w->N,
                          scratch + i * w->N);
    }
    pare_packed_gemm_pack(b, &pairs, to);
}

struct rounding {
    const float *x;
    int64_t K;
    float *to;
};

static void round_rows(void *arg, int64_t from, int64_t to, int thread)
{
    const struct rounding *j = arg;

    (void)thread;
    for (int64_t i = from; i < to; i++)
        pare_bf16_pairs(j->x + i * j->K, j->K, j->to + i * pare_bf16_half(j->K));
}

void pare_packed_gemm_round(const struct pare_backend *b, const float *x, int64_t M, int64_t K,
                            float *to)
{
    struct rounding j = { x, K, to };

    pare_parallel(b->threads, M, round_rows, &j);
}

/* Rows [from, to) and blocks of columns [first, end) of the product. */
struct part {
    int64_t from, to, first, end;
};

static void multiply(const struct pare_packed_gemm *whole, const struct part *r)
{
    const int64_t at = r->from * whole->y_row + r->first * whole->block;
    struct pare_packed_gemm p = *whole;

    p.x += r->from * p.x_row;
    p.w += r->first * p.block * pare_packed_gemm_depth(whole);
    p.y += at;
    if (p.start)
        p.start += at;
    if (p.bias)
        p.bias += r->first * p.block;
    p.rows = r->to - r->from;
    p.blocks = r->end - r->first;
    if (p.columns)
        p.columns -= r->first * p.block;
    pare_packed_gemm_run(&p);
}

struct job {
    const struct pare_packed_gemm *p;
    pare_packed_gemm_then *then;
    const void *arg;
    int64_t parts; /* groups of rows, or shares of the columns */
};

static void row_groups(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const int64_t M = j->p->rows;

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        struct part r = { M * i / j->parts, M * (i + 1) / j->parts, 0, j->p->blocks };

        multiply(j->p, &r);
        if (j->then)
            j->then(j->arg, r.from * j->p->y_row, r.to * j->p->y_row);
    }
}

/* Few weights: they stay in the cache while groups of rows pass by. */
static void by_rows(int threads, const struct pare_packed_gemm *p, pare_packed_gemm_then *then,
                    const void *arg)
{
    int64_t M = p->rows, groups = (M + GROUP - 1) / GROUP;

    groups = (groups + threads - 1) / threads * threads; /* the same number for each thread */
    groups = groups < M ? groups : M;
    pare_parallel(threads, groups, row_groups, &(struct job){ p, then, arg, groups });
}

/* Shares [begin, last) of the columns. */
static void column_shares(void *arg, int64_t begin, int64_t last, int thread)
{
    const struct job *j = arg;
    const struct pare_packed_gemm *p = j->p;
    int64_t pairs = (p->blocks + 1) / 2;
    int64_t bytes = 2 * p->block * pare_packed_gemm_depth(p) * (int64_t)sizeof(float);
    int64_t some = CACHE_BYTES / bytes + 1;
    int64_t from = pairs * begin / j->parts * 2, to = pairs * last / j->parts * 2, end;

    (void)thread;
    to = to < p->blocks ? to : p->blocks;
    for (int64_t c = from; c < to; c += 2 * some) {
        struct part r = { 0, p->rows, c, c + 2 * some < to ? c + 2 * some : to };

        multiply(p, &r);
    }
    end = to * p->block;
    end = p->columns && p->columns < end ? p->columns : end;
    for (int64_t m = 0; m < p->rows && j->then && from < to; m++)
        j->then(j->arg, m * p->y_row + from * p->block, m * p->y_row + end);
}

/* Many weights: each thread owns columns and multiplies all rows with as many of them as fit in its
 * cache, so that weights are read from memory once. */
static void by_columns(int threads, const struct pare_packed_gemm *p, pare_packed_gemm_then *then,
                       const void *arg)
{
    const int64_t parts = threads > 1 ? 4 * threads : 1;

    pare_parallel(threads, parts, column_shares, &(struct job){ p, then, arg, parts });
}

void pare_packed_gemm_multiply(const struct pare_backend *b, const struct pare_packed_gemm *p,
                               pare_packed_gemm_then *then, const void *arg)
{
    int64_t weights = pare_packed_gemm_depth(p) * p->blocks * p->block;

    if (weights * (int64_t)sizeof(float) > CACHE_BYTES)
        by_columns(b->threads, p, then, arg);
    else
        by_rows(b->threads, p, then, arg);
}
