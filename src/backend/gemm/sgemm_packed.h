/* sgemm_packed.h - float32 matrix product of any sizes and strides by packed GEMM. */
#ifndef PARE_BACKEND_GEMM_SGEMM_PACKED_H
#define PARE_BACKEND_GEMM_SGEMM_PACKED_H

#include "../backend.h"

/* pare_sgemm() without oneDNN.  block: 8, or 16 if the CPU has AVX-512.  The result does not depend
 * on the number of threads. */
void pare_sgemm_packed(const struct pare_sgemm *p, int block);

#endif
