/* gemm_packed_matrix.h - whole matrices times packed ones, by all threads. */
#ifndef PARE_BACKEND_GEMM_GEMM_PACKED_MATRIX_H
#define PARE_BACKEND_GEMM_GEMM_PACKED_MATRIX_H

#include "gemm_packed.h"

struct pare_backend;

/* (K, N), or turned (N, K), as it lies in a file: at any address. */
struct pare_packed_gemm_weights {
    const void *w;
    int64_t K, N; /* N: whole blocks */
    bool turned;
};

/* K N floats. */
void pare_packed_gemm_pack(const struct pare_backend *b, const struct pare_packed_gemm_weights *w,
                           float *to);

/* What is done with elements [from, to) of y as soon as they are there. */
typedef void pare_packed_gemm_then(const void *arg, int64_t from, int64_t to);

/* p as a whole, its y without gaps between rows; then may be NULL. */
void pare_packed_gemm_multiply(const struct pare_backend *b, const struct pare_packed_gemm *p,
                               pare_packed_gemm_then *then, const void *arg);

#endif
