/* bf16_pairs.c - float32 rounded to bfloat16 (bf16), in pairs, by AVX512_BF16 or plain C. */
#include "bf16_pairs.h"

#include <string.h>

#include "../../tensor/tensor.h"

/* Element i of possibly unaligned floats. */
static uint32_t rounded(const void *x, int64_t i)
{
    float f;

    memcpy(&f, (const char *)x + (size_t)i * sizeof(f), sizeof(f));
    return pare_f32_to_bf16(f);
}

static void put(float *to, uint32_t low, uint32_t high)
{
    uint32_t pair = low | high << 16;

    memcpy(to, &pair, sizeof(pair));
}

static void pairs_plain(const void *x, int64_t from, int64_t n, float *to)
{
    for (int64_t i = from; i < n; i += 2)
        put(to + i / 2, rounded(x, i), i + 1 < n ? rounded(x, i + 1) : 0);
}

static void zip_plain(const void *x, const void *y, int64_t from, int64_t n, float *to)
{
    for (int64_t i = from; i < n; i++)
        put(to + i, rounded(x, i), y ? rounded(y, i) : 0);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

bool pare_bf16_native(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

TARGET static int64_t pairs_avx512(const float *x, int64_t n, float *to)
{
    int64_t i = 0;

    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(to + i / 2, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16),
                                                                     _mm512_loadu_ps(x + i)));
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(to + i / 2),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
    return i;
}

TARGET static int64_t zip_avx512(const float *x, const float *y, int64_t n, float *to)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                  order = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x10001)),
                                           _mm512_set1_epi32(16 << 16)); /* 0, 16, 1, 17, ... */
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512 second = y ? _mm512_loadu_ps(y + i) : _mm512_setzero_ps();
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, _mm512_loadu_ps(x + i));

        _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(order, both));
    }
    return i;
}

void pare_bf16_pairs(const void *x, int64_t n, float *to)
{
    pairs_plain(x, pare_bf16_native() ? pairs_avx512(x, n, to) : 0, n, to);
}

void pare_bf16_zip(const void *x, const void *y, int64_t n, float *to)
{
    zip_plain(x, y, pare_bf16_native() ? zip_avx512(x, y, n, to) : 0, n, to);
}

#else

bool pare_bf16_native(void)
{
    return false;
}

void pare_bf16_pairs(const void *x, int64_t n, float *to)
{
    pairs_plain(x, 0, n, to);
}

void pare_bf16_zip(const void *x, const void *y, int64_t n, float *to)
{
    zip_plain(x, y, 0, n, to);
}

#endif
