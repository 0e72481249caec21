/* crc.c - CRC-32 of zip archives by carry-less multiplication.
 *
 * The CRC is the remainder of the message, as a polynomial over GF(2), modulo a polynomial P of
 * degree 32. Multiplying 128 bits by x^d mod P shifts them by d bits without changing the
 * remainder, so four accumulators process 64 bytes per step and are combined at the end; zlib
 * computes the remainder of the last 16 bytes.  The CRC is bit-reflected, and so are the constants,
 * x^(d + 32) mod P and x^(d - 32) mod P for the two halves.
 */
#include "crc.h"

#include <zlib.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define LEAST 256 /* bytes; shorter inputs use zlib */

#define FAST __attribute__((target("pclmul,sse2")))

FAST static inline __m128i load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

FAST static inline __m128i fold(__m128i x, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, by, 0x00), high = _mm_clmulepi64_si128(x, by, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

FAST static uint32_t crc_folded(uint32_t crc, const unsigned char *p, size_t n)
{
    const __m128i by512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i x[4];
    unsigned char last[16];

    for (int i = 0; i < 4; i++)
        x[i] = load(p + 16 * i);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
        for (int i = 0; i < 4; i++)
            x[i] = fold(x[i], by512, load(p + 16 * i));
    for (int i = 1; i < 4; i++)
        x[0] = fold(x[0], by128, x[i]);
    for (; n >= 16; p += 16, n -= 16)
        x[0] = fold(x[0], by128, load(p));
    _mm_storeu_si128((__m128i *)(void *)last, x[0]);
    crc = (uint32_t)crc32_z(UINT32_MAX, last, 16); /* a register of 0, which zlib inverts */
    return (uint32_t)crc32_z(crc, p, n);
}

static bool can_fold(void)
{
    return __builtin_cpu_supports("pclmul");
}

#else

#define LEAST SIZE_MAX

static uint32_t crc_folded(uint32_t crc, const unsigned char *p, size_t n)
{
    return (uint32_t)crc32_z(crc, p, n);
}

static bool can_fold(void)
{
    return false;
}

#endif

uint32_t pare_crc32(uint32_t crc, const void *data, size_t n)
{
    if (n < LEAST || !can_fold())
        return n ? (uint32_t)crc32_z(crc, data, n) : crc;
    return crc_folded(crc, data, n);
}
