/* vec512.h - AVX-512 vectors, for loops that are written once for several instruction sets.
 *
 * No include guard: each use ends with vec_end.h.  MAX and MIN return their second operand if one
 * is NaN; INVERSE is 1 / v within one or two ulp, for v from 1 to 2^125.
 */
#define VEC __m512
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define ZERO() _mm512_setzero_ps()
#define ALL(a) _mm512_set1_ps(a)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define MIN(a, b) _mm512_min_ps(a, b)
#define ROUND(v) _mm512_roundscale_ps(v, 8)     /* to integers, without exceptions */
#define TIMES_POW2(v, k) _mm512_scalef_ps(v, k) /* v 2^k for integer k */
#define INVERSE(v)          \
    MUL(_mm512_rcp14_ps(v), \
        _mm512_fnmadd_ps(v, _mm512_rcp14_ps(v), ALL(2.0f))) /* one Newton step */
#define KEEP(v) __asm__("" : "+v"(v))                       /* load it once for all uses */
#define INDEX __m512i
#define LOAD_INDEX(p) _mm512_loadu_si512(p)
#define PERMUTE(v, i) _mm512_permutexvar_ps(i, v) /* lane k is lane i[k] of v */
#define BLOCK 16
#define TARGET __attribute__((target("avx512f")))
#define NAME(x) x##_avx512
