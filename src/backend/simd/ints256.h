/* ints256.h - AVX2 vectors of integers; see ints512.h. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INTS __m256i
#define FLOATS __m256
#define HALF __m128i
#define LANES 8
#define TARGET __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#define GET(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define PUT(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define GET_FLOATS(p) _mm256_loadu_ps(p)
#define NONE() _mm256_setzero_si256()
#define ALL16(a) _mm256_set1_epi16((short)(a))
#define ALL32(a) _mm256_set1_epi32(a)
#define ALL_FLOATS(a) _mm256_set1_ps(a)
#define ADD16(a, b) _mm256_add_epi16(a, b)
#define SUB16(a, b) _mm256_sub_epi16(a, b)
#define SHIFT16(a, n) _mm256_slli_epi16(a, n)
#define ADD32(a, b) _mm256_add_epi32(a, b)
#define SUB32(a, b) _mm256_sub_epi32(a, b)
#define MUL32(a, b) _mm256_mullo_epi32(a, b)
#define SHIFT32(a, n) _mm256_slli_epi32(a, n)
#define SHIFT_BACK32(a, n) _mm256_srai_epi32(a, n)
#define ADD_PAIRS(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define WIDEN(bytes, is_signed) \
    ((is_signed) ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes))
#define WIDEN32(p, is_signed)                                               \
    ((is_signed) ? _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p))) \
                 : _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p))))
#define TO_FLOATS(v) _mm256_cvtepi32_ps(v)
#define TO_INTS(v) _mm256_cvtps_epi32(v)
#define ADD_FLOATS(a, b) _mm256_add_ps(a, b)
#define MUL_FLOATS(a, b) _mm256_mul_ps(a, b)
#define MAX_FLOATS(a, b) _mm256_max_ps(a, b)
#define MIN_FLOATS(a, b) _mm256_min_ps(a, b)
#define KEEP_ORDER(a, b) __asm__("" : "+x"(a), "+x"(b)) /* row after row, without spills */
#define GET_BYTES(p, n, fill) NAME(get_bytes)(p, n, fill)
#define PUT16(p, v, n) NAME(put16)(p, v, n)
#define PUT_BYTES(p, v, n) NAME(put_bytes)(p, v, n)

#ifndef PARE_BACKEND_SIMD_INTS256_H
#define PARE_BACKEND_SIMD_INTS256_H

TARGET static inline __attribute__((always_inline)) __m128i NAME(get_bytes)(const uint8_t *p,
                                                                            int64_t n, int fill)
{
    uint8_t all[16];

    if (n >= 16)
        return _mm_loadu_si128((const __m128i *)(const void *)p);
    memset(all, fill, sizeof(all));
    memcpy(all, p, (size_t)n);
    return _mm_loadu_si128((const __m128i *)(const void *)all);
}

TARGET static inline __attribute__((always_inline)) void NAME(put16)(int16_t *p, __m256i v,
                                                                     int64_t n)
{
    int16_t all[16];

    PUT(n < 16 ? all : p, v);
    if (n < 16)
        memcpy(p, all, (size_t)n * sizeof(*p));
}

TARGET static inline __attribute__((always_inline)) void NAME(put_bytes)(uint8_t *p, __m256i v,
                                                                         int64_t n)
{
    const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(255));
    const __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(low),
                                           _mm256_extracti128_si256(low, 1));
    const __m128i bytes = _mm_packus_epi16(pairs, pairs);
    uint8_t all[8];

    _mm_storel_epi64((__m128i *)(void *)(n < 8 ? all : p), bytes);
    if (n < 8)
        memcpy(p, all, (size_t)n);
}

#endif
