/* gemm_bf16.h - matrix products whose operands are rounded to bf16, with float32 sums, of computed
 * matrices: for training. */
#ifndef PARE_BACKEND_GEMM_GEMM_BF16_H
#define PARE_BACKEND_GEMM_GEMM_BF16_H

#include "../backend.h"

/* Can it compute p?  The number of columns must be a multiple of the block, and C without gaps. */
bool pare_gemm_bf16_can(const struct pare_backend *b, const struct pare_sgemm *p);

/* Floats of scratch memory. */
size_t pare_gemm_bf16_work(const struct pare_sgemm *p);

/* Compute p, as pare_sgemm(), plus bias (N) unless NULL. */
void pare_gemm_bf16(const struct pare_backend *b, const struct pare_sgemm *p, const float *bias,
                    float *work);

#endif
