/* gemm_int8.c - int8 GEMM with packed constant matrices and requantization, by VNNI. */
#include "gemm_int8.h"

#include <math.h>

#include "../simd/unroll_cases.h"

#define ROWS 12
#define WIDE PARE_GEMM_INT8

void pare_gemm_int8_pack(const int8_t *w, bool transposed, int64_t K, int64_t N, int8_t *packed)
{
    int64_t fours = pare_gemm_int8_fours(K);

    memset(packed, 0, pare_gemm_int8_bytes(K, N));
    for (int64_t c = 0; c < N; c++)
        for (int64_t k = 0; k < K; k++)
            packed[((c / WIDE * fours + k / 4) * WIDE + c % WIDE) * 4 + k % 4] = transposed
                                                                                     ? w[c * K + k]
                                                                                     : w[k * N + c];
}

void pare_gemm_int8_sums(const int8_t *packed, int64_t K, int64_t N, int zero, int32_t *sum)
{
    int64_t fours = pare_gemm_int8_fours(K);

    for (int64_t c = 0; c < pare_gemm_int8_columns(N); c++) {
        int32_t s = 0;

        for (int64_t k = 0; k < fours; k++)
            for (int i = 0; i < 4; i++)
                s += packed[((c / WIDE * fours + k) * WIDE + c % WIDE) * 4 + i];
        sum[c] = -zero * s;
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

bool pare_gemm_int8_can(const struct pare_backend *b)
{
    return b->vnni && b->block == 16 && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

/* scale acc + bias, for 16 columns from c on. */
TARGET static inline __attribute__((always_inline)) void
put_scaled(const struct pare_gemm_int8 *p, int64_t at, int64_t c, __m512i acc, __mmask16 live)
{
    __m512 f = p->one_scale ? _mm512_set1_ps(*p->scale) : _mm512_maskz_loadu_ps(live, p->scale + c);
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), f);

    if (p->bias)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(live, p->bias + c));
    _mm512_mask_storeu_ps((float *)p->y + at, live, v);
}

/* As pare_int8_finish(), for 16 columns from c on; `live` masks existing columns.  The bounds
 * include the range of the type. */
TARGET static inline __attribute__((always_inline)) void
put(const struct pare_gemm_int8 *p, int64_t row, int64_t c, __m512i acc, __mmask16 live)
{
    const struct pare_int8_out *o = &p->out;
    int64_t at = row * p->y_row + c;
    __m512i q;
    __m512 v;

    acc = _mm512_add_epi32(acc, _mm512_loadu_si512(p->sum + c));
    if (p->shift)
        acc = _mm512_sub_epi32(acc, _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(live, p->shift + c),
                                                       _mm512_set1_epi32(p->row_sum[row])));
    if (p->scale) {
        put_scaled(p, at, c, acc, live);
        return;
    }
    if (o->out->t.dtype == PARE_I32) {
        _mm512_mask_storeu_epi32((int32_t *)p->y + at, live, acc);
        return;
    }
    v = _mm512_mul_ps(_mm512_add_ps(_mm512_cvtepi32_ps(acc), _mm512_loadu_ps(o->b + c)),
                      _mm512_loadu_ps(o->f + c));
    v = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(p->lo)), _mm512_set1_ps(p->hi));
    if (o->out->t.dtype == PARE_F32) {
        _mm512_mask_storeu_ps((float *)p->y + at, live, v);
        return;
    }
    q = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(o->q.zero));
    _mm512_mask_cvtepi32_storeu_epi8((char *)p->y + at, live, q);
}

/* The first n of 16. */
static inline __mmask16 mask(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : n > 0 ? (1u << n) - 1 : 0u);
}

/* n rows from `first` on of a panel; n is a constant at each inlined call. */
TARGET static inline __attribute__((always_inline)) void rows(const struct pare_gemm_int8 *p,
                                                              int64_t first, int64_t c, const int n)
{
    const int64_t fours = pare_gemm_int8_fours(p->K), step = p->x_row;
    const uint8_t *x = p->x + first * step;
    const int8_t *w = p->w + c * fours * 4;
    __mmask16 live[2];
    __m512i sum[ROWS][2];

#pragma GCC unroll 12
    for (int r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = _mm512_setzero_si512();
    for (int64_t k = 0; k < fours; k++) {
        __m512i b0 = _mm512_loadu_si512(w + k * WIDE * 4);
        __m512i b1 = _mm512_loadu_si512(w + k * WIDE * 4 + 64);

#pragma GCC unroll 12
        for (int r = 0; r < n; r++) {
            int32_t four;
            __m512i a;

            memcpy(&four, x + r * step + k * 4, 4);
            a = _mm512_set1_epi32(four);
            sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], a, b0);
            sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], a, b1);
            __asm__("" : "+v"(sum[r][0]), "+v"(sum[r][1])); /* in place, without spills */
        }
    }
    for (int v = 0; v < 2; v++)
        live[v] = mask(p->to - c - 16 * v);
#pragma GCC unroll 12
    for (int r = 0; r < n; r++) {
        put(p, first + r, c, sum[r][0], live[0]);
        if (live[1])
            put(p, first + r, c + 16, sum[r][1], live[1]);
    }
}

TARGET static void some(const struct pare_gemm_int8 *p, int64_t first, int64_t c, int n)
{
    switch (n) {
        PARE_CASES_12(rows, p, first, c);
    default: break;
    }
}

void pare_gemm_int8_run(const struct pare_gemm_int8 *given)
{
    struct pare_gemm_int8 p = *given;
    int64_t parts = (p.rows + ROWS - 1) / ROWS;

    if (!p.scale)
        pare_int8_bounds(&p.out, &p.lo, &p.hi);
    for (int64_t c = p.from; c < p.to; c += WIDE)
        for (int64_t i = 0; i < parts; i++) {
            int64_t first = p.rows * i / parts, end = p.rows * (i + 1) / parts;

            some(&p, first, c, (int)(end - first));
        }
}

#else

bool pare_gemm_int8_can(const struct pare_backend *b)
{
    (void)b;
    return false;
}

void pare_gemm_int8_run(const struct pare_gemm_int8 *given)
{
    (void)given;
}

#endif
