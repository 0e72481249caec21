/* vec256.h - AVX2 vectors; see vec512.h. */
#define VEC __m256
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define ZERO() _mm256_setzero_ps()
#define ALL(a) _mm256_set1_ps(a)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define MIN(a, b) _mm256_min_ps(a, b)
#define ROUND(v) _mm256_round_ps(v, 8)
#define TIMES_POW2(v, k) \
    _mm256_castsi256_ps( \
        _mm256_add_epi32(_mm256_castps_si256(v), _mm256_slli_epi32(_mm256_cvtps_epi32(k), 23)))
#define INVERSE(v) _mm256_div_ps(ALL(1.0f), v)
#define KEEP(v) __asm__("" : "+x"(v)) /* load it once for all uses */
#define INDEX __m256i
#define LOAD_INDEX(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define PERMUTE(v, i) _mm256_permutevar8x32_ps(v, i)
#define BLOCK 8
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(x) x##_avx2
