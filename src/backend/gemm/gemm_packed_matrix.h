/* gemm_packed_matrix.h - packed GEMM of whole matrices, on all threads. */
#ifndef PARE_BACKEND_GEMM_GEMM_PACKED_MATRIX_H
#define PARE_BACKEND_GEMM_GEMM_PACKED_MATRIX_H

#include "bf16_pairs.h"
#include "gemm_packed.h"

struct pare_backend;

/* (K, N), or transposed (N, K), as stored in a file: perhaps unaligned. */
struct pare_packed_gemm_weights {
    const void *w;
    int64_t K, N;
    bool transposed;
};

/* Columns of the packed form of n columns: whole blocks. */
static inline int64_t pare_packed_gemm_columns(int64_t n, int block)
{
    return (n + block - 1) / block * block;
}

/* Pack into K * pare_packed_gemm_columns(N) floats. */
void pare_packed_gemm_pack(const struct pare_backend *b, const struct pare_packed_gemm_weights *w,
                           float *to);

/* Pack, rounded to pairs of bf16; `to` has pare_bf16_half(K) * pare_packed_gemm_columns(N) floats,
 * `scratch` at least pare_bf16_half(K) * N. */
void pare_packed_gemm_pack_bf16(const struct pare_backend *b,
                                const struct pare_packed_gemm_weights *w, float *scratch,
                                float *to);

/* x (M, K) as pairs of bf16 (M, pare_bf16_half(K)), on all threads. */
void pare_packed_gemm_round(const struct pare_backend *b, const float *x, int64_t M, int64_t K,
                            float *to);

/* Called for elements [from, to) of y as soon as they are computed. */
typedef void pare_packed_gemm_then(const void *arg, int64_t from, int64_t to);

/* Compute all of p, whose y has no gaps between rows; then may be NULL. */
void pare_packed_gemm_multiply(const struct pare_backend *b, const struct pare_packed_gemm *p,
                               pare_packed_gemm_then *then, const void *arg);

#endif
