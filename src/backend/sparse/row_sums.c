/* row_sums.c - weighted sums of rows: products with a matrix that is mostly zeros. */
#include "row_sums.h"

#include "../simd/unroll_cases.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define WIDE __attribute__((target("avx2,fma,avx512f,avx512vl")))

/* Columns [0, 8 nv).  Few columns have `ways` independent sums each, to hide the latency of
 * additions; nv is a constant at each inlined call. */
AVX2 static inline __attribute__((always_inline)) void columns(const struct pare_sum_rows *s,
                                                               int64_t first, const int nv)
{
    const int ways = nv < 3 ? 4 : nv < 7 ? 2 : 1;
    const float *rows = s->rows + first;
    const struct pare_term *t = s->term, *end = t + s->n / ways * ways;
    float *y = s->y + first;
    __m256 sum[16];

#pragma GCC unroll 16
    for (int v = 0; v < nv; v++)
        sum[v] = _mm256_loadu_ps(y + 8 * v);
#pragma GCC unroll 16
    for (int v = nv; v < nv * ways; v++)
        sum[v] = _mm256_setzero_ps();
    for (; t < end; t += ways)
#pragma GCC unroll 4
        for (int w = 0; w < ways; w++) {
            __m256 by = _mm256_broadcast_ss(&t[w].by);

#pragma GCC unroll 16
            for (int v = 0; v < nv; v++)
                sum[w * nv + v] = _mm256_fmadd_ps(by, _mm256_loadu_ps(rows + t[w].at + 8 * v),
                                                  sum[w * nv + v]);
        }
    for (end = s->term + s->n; t < end; t++) {
#pragma GCC unroll 16
        for (int v = 0; v < nv; v++)
            sum[v] = _mm256_fmadd_ps(_mm256_broadcast_ss(&t->by),
                                     _mm256_loadu_ps(rows + t->at + 8 * v), sum[v]);
    }
#pragma GCC unroll 16
    for (int v = 0; v < nv; v++) {
#pragma GCC unroll 4
        for (int w = 1; w < ways; w++)
            sum[v] = _mm256_add_ps(sum[v], sum[w * nv + v]);
        _mm256_storeu_ps(y + 8 * v, sum[v]);
    }
}

AVX2 static void sum_avx2(const struct pare_sum_rows *s)
{
    int64_t vectors = s->width / 8, parts = (vectors + 7) / 8;

    for (int64_t i = 0; i < parts; i++) {
        int64_t first = vectors * i / parts * 8, end = vectors * (i + 1) / parts * 8;

        switch ((end - first) / 8) {
            PARE_CASES_8(columns, s, first);
        default: break;
        }
    }
}

/* The same with the 32 registers of AVX-512. */
WIDE static void sum_wide(const struct pare_sum_rows *s)
{
    int64_t vectors = s->width / 8, parts = (vectors + 15) / 16;

    for (int64_t i = 0; i < parts; i++) {
        int64_t first = vectors * i / parts * 8, end = vectors * (i + 1) / parts * 8;

        switch ((end - first) / 8) {
            PARE_CASES_16(columns, s, first);
        default: break;
        }
    }
}
#endif

/* Plain C. */
static void sum_plain(const struct pare_sum_rows *s)
{
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = 0; k < s->width; k++)
            s->y[k] += s->term[i].by * s->rows[s->term[i].at + k];
}

void pare_sum_rows(const struct pare_sum_rows *s)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
        sum_wide(s);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sum_avx2(s);
        return;
    }
#endif
    sum_plain(s);
}
