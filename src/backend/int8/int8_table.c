/* int8_table.c - table lookup by bytes: 256 bytes or 256 floats.
 *
 * AVX-512 VBMI holds a table of 256 bytes in four registers and looks up 64 of them with three
 * instructions; a table of floats is four such tables, one per byte of a float.
 */
#include "../fuse/int8_operands.h"

void pare_int8_table_set(struct pare_int8_table *t)
{
    for (int k = 0; k < 256; k++)
        for (int p = 0; p < 4; p++)
            t->part[p][k] = ((const uint8_t *)(t->f32 + k))[p];
}

static void bytes_plain(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = table[x[i]];
}

static void floats_plain(const float *table, const uint8_t *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = table[x[i]];
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

static bool has_vbmi(void)
{
    return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

TARGET static inline __attribute__((always_inline)) __m512i find_lookup(const __m512i t[4],
                                                                        __m512i at)
{
    __m512i low = _mm512_permutex2var_epi8(t[0], at, t[1]);
    __m512i high = _mm512_permutex2var_epi8(t[2], at, t[3]);

    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high);
}

TARGET static void bytes_vbmi(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t n)
{
    __m512i t[4];

    for (int i = 0; i < 4; i++)
        t[i] = _mm512_loadu_si512(table + 64 * i);
    for (int64_t i = 0; i < n; i += 64) {
        __mmask64 live = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;

        _mm512_mask_storeu_epi8(y + i, live, find_lookup(t, _mm512_maskz_loadu_epi8(live, x + i)));
    }
}

/* Bytes are looked up in an order such that interleaving them in pairs, within quarters of a
 * register, yields 16 consecutive floats per result. */
TARGET static void floats_vbmi(const struct pare_int8_table *table, const uint8_t *x, float *y,
                               int64_t n)
{
    uint8_t order[64];
    __m512i t[4][4], turn;

    for (int i = 0; i < 64; i++)
        order[i] = (uint8_t)(i / 4 % 4 * 16 + i / 16 * 4 + i % 4);
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < 4; i++)
            t[p][i] = _mm512_loadu_si512(table->part[p] + 64 * i);
    turn = _mm512_loadu_si512(order);
    for (int64_t i = 0; i + 64 <= n; i += 64) {
        __m512i at = _mm512_permutexvar_epi8(turn, _mm512_loadu_si512(x + i));
        __m512i a = find_lookup(t[0], at), b = find_lookup(t[1], at), c = find_lookup(t[2], at),
                d = find_lookup(t[3], at);
        __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);

        _mm512_storeu_si512(y + i, _mm512_unpacklo_epi16(ab, cd));
        _mm512_storeu_si512(y + i + 16, _mm512_unpackhi_epi16(ab, cd));
        ab = _mm512_unpackhi_epi8(a, b);
        cd = _mm512_unpackhi_epi8(c, d);
        _mm512_storeu_si512(y + i + 32, _mm512_unpacklo_epi16(ab, cd));
        _mm512_storeu_si512(y + i + 48, _mm512_unpackhi_epi16(ab, cd));
    }
    floats_plain(table->f32, x + n / 64 * 64, y + n / 64 * 64, n % 64);
}
#endif

void pare_int8_bytes(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t n)
{
#if defined(__x86_64__)
    if (n >= 64 && has_vbmi()) {
        bytes_vbmi(table, x, y, n);
        return;
    }
#endif
    bytes_plain(table, x, y, n);
}

void pare_int8_floats(const struct pare_int8_table *table, const uint8_t *x, float *y, int64_t n)
{
#if defined(__x86_64__)
    if (n >= 64 && has_vbmi()) {
        floats_vbmi(table, x, y, n);
        return;
    }
#endif
    floats_plain(table->f32, x, y, n);
}
