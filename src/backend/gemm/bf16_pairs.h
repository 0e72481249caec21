/* bf16_pairs.h - float32 rounded to bfloat16 (bf16), in pairs for products with float32 sums.
 *
 * A pair has the place of one float: the first value in its low half, the second in its high half.
 * Matrices of pairs are moved and packed like matrices of floats with half as many elements along
 * the axis that a product sums over.
 */
#ifndef PARE_BACKEND_GEMM_BF16_PAIRS_H
#define PARE_BACKEND_GEMM_BF16_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

static inline int64_t pare_bf16_half(int64_t n)
{
    return (n + 1) / 2;
}

/* Does the CPU have instructions for bf16 (AVX512_BF16)?  Without them the functions below and
 * packed GEMM compute the same, slowly. */
bool pare_bf16_native(void);

/* to[i] = (x[2 i], x[2 i + 1]), 0 after the last of n; x may be unaligned. */
void pare_bf16_pairs(const void *x, int64_t n, float *to);

/* to[i] = (x[i], y[i]) for n elements; y NULL: zeros.  x and y may be unaligned. */
void pare_bf16_zip(const void *x, const void *y, int64_t n, float *to);

#endif
