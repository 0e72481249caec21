/* gemm_packed_matrix.h - packed GEMM of whole matrices, on all threads. */
#ifndef PARE_BACKEND_GEMM_GEMM_PACKED_MATRIX_H
#define PARE_BACKEND_GEMM_GEMM_PACKED_MATRIX_H

#include "gemm_packed.h"

struct pare_backend;

/* (K, N), or transposed (N, K), as stored in a file: perhaps unaligned. */
struct pare_packed_gemm_weights {
    const void *w;
    int64_t K, N; /* N: a multiple of the block */
    bool transposed;
};

/* Pack into K * N floats. */
void pare_packed_gemm_pack(const struct pare_backend *b, const struct pare_packed_gemm_weights *w,
                           float *to);

/* Called for elements [from, to) of y as soon as they are computed. */
typedef void pare_packed_gemm_then(const void *arg, int64_t from, int64_t to);

/* Compute all of p, whose y has no gaps between rows; then may be NULL. */
void pare_packed_gemm_multiply(const struct pare_backend *b, const struct pare_packed_gemm *p,
                               pare_packed_gemm_then *then, const void *arg);

#endif
