/* gemm_packed.c - packed GEMM: products with matrices packed in panels of columns. */
#include "gemm_packed.h"

#include <string.h>

#include "../simd/unroll_cases.h"
#include "bf16_pairs.h"

#include "../../base/simd.h"

static inline int64_t run_at(const struct pare_packed_gemm *p, int64_t i)
{
    return p->offset ? p->offset[i] : i * p->x_run;
}

/* Offset of element k of a row. */
static int64_t element_at(const struct pare_packed_gemm *p, int64_t k)
{
    int64_t full = p->runs * p->run;

    if (p->x_step)
        return k * p->x_step;
    if (k < full)
        return run_at(p, k / p->run) + k % p->run;
    return run_at(p, p->runs + (k - full) / p->last) + (k - full) % p->last;
}

/* Apply the post-ops to n blocks of columns while they are in the L1 cache. */
static void apply_post_ops(const struct pare_packed_gemm *p, int64_t first, int64_t n)
{
    const bool near = p->y_row == p->block; /* the rows of a block are contiguous */
    struct pare_post_area a = {
        .rows = near ? 1 : p->rows,
        .step = p->y_row,
        .n = near ? p->rows * p->block : p->block,
    };

    for (int64_t i = first; i < first + n && p->n_post; i++) {
        a.y = p->y + i * p->y_block;
        a.sum = p->sum ? p->sum + i * p->y_block : p->sum;
        pare_post_ops_run(p->post, p->n_post, &a);
    }
}

/* Start, clamp and store n sums of a row, from a block of columns on. */
static void put_row(const struct pare_packed_gemm *p, int64_t row, int64_t block, const float *sum,
                    int64_t n)
{
    if (p->columns && block * p->block + n > p->columns)
        n = p->columns - block * p->block;
    for (int64_t c = 0; c < n; c++) {
        int64_t at = row * p->y_row + (block + c / p->block) * p->y_block + c % p->block;
        float v = p->start ? sum[c] + p->start[at] : sum[c];

        v = p->clamp && v < p->low ? p->low : v;
        p->y[at] = p->clamp && v > p->high ? p->high : v;
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define ROWS 12
#define PIXEL 16
#include "../simd/vec512.h"
#include "gemm_packed_loops.h"
#include "../simd/vec_end.h"

#define ROWS 12
#define PIXEL 8
#include "../simd/vec512_bf16.h"
#include "gemm_packed_loops.h"
#include "../simd/vec_end.h"

#define ROWS 6
#define PIXEL 8
#include "../simd/vec256.h"
#include "gemm_packed_loops.h"
#include "../simd/vec_end.h"
#endif

#if defined(__x86_64__)
#define ROWS 2 /* 8 sums and 4 columns of w in 16 registers */
#else
#define ROWS 6
#endif
#define PIXEL 8
#include "../simd/vec_plain.h"
#include "gemm_packed_loops.h"
#include "../simd/vec_end.h"

static float high_half(uint32_t pair)
{
    float f;

    pair &= 0xffff0000u;
    memcpy(&f, &pair, sizeof(f));
    return f;
}

/* sum += x w for an element of x and a block of w, of floats or of pairs of bf16. */
static void add_products(const struct pare_packed_gemm *p, const float *x, const float *w,
                         float *sum)
{
    for (int c = 0; c < p->block; c++) {
        uint32_t a, b;

        if (!p->bf16) {
            sum[c] += *x * w[c];
            continue;
        }
        memcpy(&a, x, sizeof(a));
        memcpy(&b, w + c, sizeof(b));
        sum[c] += high_half(a << 16) * high_half(b << 16) + high_half(a) * high_half(b);
    }
}

/* Plain C, any block. */
static void all_scalar(const struct pare_packed_gemm *p)
{
    const int64_t K = pare_packed_gemm_depth(p);

    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t b = 0; b < p->blocks; b++) {
            float sum[16] = { 0 };

            for (int c = 0; c < p->block && p->bias; c++)
                sum[c] = p->bias[b * p->block + c];
            for (int64_t k = 0; k < K; k++) {
                const float *w = p->w + (p->w_step ? k * p->w_step + b * p->block
                                                   : pare_packed_gemm_at(K, p->blocks, p->block, k,
                                                                         b * p->block));

                add_products(p, p->x + r * p->x_row + element_at(p, k), w, sum);
            }
            put_row(p, r, b, sum, p->block);
        }
    apply_post_ops(p, 0, p->blocks);
}

void pare_packed_gemm_run(const struct pare_packed_gemm *p)
{
#if defined(__x86_64__)
    if (p->bf16 && p->block == 16 && pare_bf16_native()) {
        all_bf16(p);
        return;
    }
    if (!p->bf16 && p->block == 16 && __builtin_cpu_supports("avx512f")) {
        all_avx512(p);
        return;
    }
    if (!p->bf16 && p->block == 8 && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma")) {
        all_avx2(p);
        return;
    }
#endif
    if (p->block == 8 && !p->bf16)
        all_plain(p);
    else
        all_scalar(p);
}
