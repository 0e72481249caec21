/* vec512_bf16.h - AVX-512 vectors whose FMA multiplies pairs of bf16 and adds both products to
 * float32 sums; see vec512.h and gemm/bf16_pairs.h. */
#include "vec_end.h"

#include "vec512.h"

#undef FMA
#undef TARGET
#undef NAME
#define FMA(a, b, c) \
    _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b))
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define NAME(x) x##_bf16
