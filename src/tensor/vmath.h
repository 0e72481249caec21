/* vmath.h - vectorizable float32 math: exp, expm1, sigmoid, tanh, log, erf, gelu.
 *
 * libm's functions are calls, and a call in a loop keeps it scalar.  These functions are
 * straight-line arithmetic and selections, without branches, tables or calls, so that a loop over
 * them inside a PARE_SIMD function is vectorized.  They only add and multiply (no fused
 * operations), so every instruction set gives the same bits.
 *
 * The error stated for each is relative and holds over all floats (subnormal results: one or two
 * units in the last place); half a unit is 6e-8 at most.  tests/unit/test_vmath.c compares with
 * libm in double.  Infinities and overflow give what libm gives; NaN in, NaN out.
 *
 * The coefficients are minimax polynomials, computed by tools/fit_vmath.py.
 */
#ifndef PARE_TENSOR_VMATH_H
#define PARE_TENSOR_VMATH_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../base/simd.h"

/* ---- pieces ------------------------------------------------------------------ */

#define PARE_LOG2E 1.44269504f
#define PARE_LN2_HI 0.693359375f      /* 355 / 512: few bits, so that a product is exact */
#define PARE_LN2_LO (-2.12194440e-4f) /* ln 2 - PARE_LN2_HI */
#define PARE_ROUNDER 12582912.0f      /* 1.5 * 2^23: adding it rounds to an integer */

PARE_SIMD_PART uint32_t pare_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

PARE_SIMD_PART float pare_unbits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

/* 2^k for k in [-126, 127]. */
PARE_SIMD_PART float pare_pow2(int32_t k)
{
    return pare_unbits(((uint32_t)k + 127) << 23);
}

/* hi + lo = k ln 2 + r with |r| <= ln 2 / 2: sets k, returns exp(r) - 1.  |hi| < 2^21. */
PARE_SIMD_PART float pare_exp_reduce(float hi, float lo, int32_t *k)
{
    float t = hi * PARE_LOG2E + PARE_ROUNDER, whole = t - PARE_ROUNDER;
    float r = hi - whole * PARE_LN2_HI - whole * PARE_LN2_LO + lo;
    float q = 1.38201076e-3f;

    q = q * r + 8.36868491e-3f;
    q = q * r + 4.16682735e-2f;
    q = q * r + 1.66665211e-1f;
    q = q * r + 4.9999994e-1f;
    *k = (int32_t)(pare_bits(t) - pare_bits(PARE_ROUNDER));
    return r + r * r * q;
}

/* exp(hi + lo) for hi in [-104, 89]: in two steps, since 2^k alone may not be a float. */
PARE_SIMD_PART float pare_exp_sum(float hi, float lo)
{
    int32_t k, half;
    float p = pare_exp_reduce(hi, lo, &k);

    half = k >> 1;
    return (1 + p) * pare_pow2(half) * pare_pow2(k - half);
}

/* P(N(0, 1) > a) = exp(e_hi + e_lo) g(a), where e_hi + e_lo = -a^2 / 2, for a in [0, 15].  g,
 * which falls slowly, is a polynomial in t = 1 / (1 + a / 3.5). */
PARE_SIMD_PART float pare_gauss_tail(float a, float e_hi, float e_lo)
{
    float t = 3.5f / (3.5f + a), g = -1.59015991e-2f;

    g = g * t + 1.02155171e-1f;
    g = g * t - 2.4740164e-1f;
    g = g * t + 2.59768784e-1f;
    g = g * t - 1.29680112e-1f;
    g = g * t + 1.27702653e-1f;
    g = g * t + 6.79278001e-2f;
    g = g * t + 1.07743807e-1f;
    g = g * t + 1.13689438e-1f;
    g = g * t + 1.13995701e-1f;
    return pare_exp_sum(e_hi, e_lo) * (g * t);
}

/* ---- exponentials ---------------------------------------------------------------- */

/* exp(x), 1e-7. */
PARE_SIMD_PART float pare_expf(float x)
{
    x = x < -104.0f ? -104.0f : x; /* exp of it is 0 */
    x = x > 89.0f ? 89.0f : x;     /* exp of it is infinite */
    return pare_exp_sum(x, 0);
}

/* exp(x) - 1, 1.5e-7: also near 0, where exp(x) - 1 as written loses all digits. */
PARE_SIMD_PART float pare_expm1f(float x)
{
    int32_t k;
    float p, h;

    x = x < -18.0f ? -18.0f : x; /* -1 */
    x = x > 89.0f ? 89.0f : x;
    p = pare_exp_reduce(x, 0, &k);
    h = pare_pow2(k - 1); /* half, as 2^128 is not a float */
    return 2 * (h * p + (h - 0.5f));
}

/* 1 / (1 + exp(-x)), 2.5e-7.  The exponential is always of a negative number, so that small
 * results keep their digits. */
PARE_SIMD_PART float pare_sigmoidf(float x)
{
    float e = pare_expf(-fabsf(x)), s = 1 / (1 + e);

    return x < 0 ? e * s : s;
}

/* tanh(x), 1.5e-7: a polynomial around 0, 1 - 2 / (exp(2x) + 1) elsewhere. */
PARE_SIMD_PART float pare_tanhf(float x)
{
    float a = fabsf(x), z = x * x, q = -5.71549917e-3f, far;

    q = q * z + 2.06491034e-2f;
    q = q * z - 5.37430048e-2f;
    q = q * z + 1.33314848e-1f;
    q = q * z - 3.33332837e-1f;
    far = 1 - 2 / (pare_exp_sum(2 * (a > 10.0f ? 10.0f : a), 0) + 1);
    return copysignf(a < 0.625f ? a + a * (z * q) : far, x);
}

/* ---- logarithms ---------------------------------------------------------------- */

/* log(x), 1e-7.  x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2));
 * log(x) = k ln 2 + f - f^2 / 2 + f^3 q(f). */
PARE_SIMD_PART float pare_logf(float x)
{
    const uint32_t root = 0x3f3504f3; /* the bits of sqrt(1/2) */
    int sub = x < FLT_MIN;            /* bring subnormals into range */
    uint32_t u = pare_bits(sub ? x * 8388608.0f : x) - root;
    float k = (float)(((int32_t)u >> 23) - (sub ? 23 : 0));
    float f = pare_unbits((u & 0x7fffff) + root) - 1, z = f * f, q = 6.74926788e-2f, y;

    q = q * f - 1.16700977e-1f;
    q = q * f + 1.18835486e-1f;
    q = q * f - 1.24062337e-1f;
    q = q * f + 1.42203584e-1f;
    q = q * f - 1.66679889e-1f;
    q = q * f + 2.00020716e-1f;
    q = q * f - 2.50000089e-1f;
    q = q * f + 3.33333135e-1f;
    y = k * PARE_LN2_HI + (f + (f * z * q + k * PARE_LN2_LO - 0.5f * z));
    y = x > FLT_MAX ? x : y;
    y = x == 0 ? -INFINITY : y;
    return x >= 0 ? y : NAN;
}

/* log(1 + e) for e in [0, 1], 2e-7: 2 atanh(s) with s = e / (2 + e). */
PARE_SIMD_PART float pare_log1p_unit(float e)
{
    float s = e / (2 + e), z = s * s, q = 2.80267417e-1f;

    q = q * z + 2.79985964e-1f;
    q = q * z + 4.00217384e-1f;
    q = q * z + 6.66664124e-1f;
    return 2 * s + s * (z * q);
}

/* log(1 + exp(x)), 2.5e-7. */
PARE_SIMD_PART float pare_softplusf(float x)
{
    return (x > 0 ? x : 0) + pare_log1p_unit(pare_expf(-fabsf(x)));
}

/* ---- the error function -------------------------------------------------------- */

/* erf(x), 1.5e-7: a polynomial around 0, 1 - 2 P(N > |x| sqrt(2)) elsewhere. */
PARE_SIMD_PART float pare_erff(float x)
{
    float a = fabsf(x), z = x * x, q = 7.94310035e-5f, c = a > 4.0f ? 4.0f : a, far;

    q = q * z - 8.03975272e-4f;
    q = q * z + 5.19175315e-3f;
    q = q * z - 2.685556e-2f;
    q = q * z + 1.12836242e-1f;
    q = q * z - 3.76126289e-1f;
    q = q * z + 1.28379166e-1f;
    far = 1 - 2 * pare_gauss_tail(1.41421356f * c, -c * c, 0);
    return copysignf(a < 0.9f ? a + a * q : far, x);
}

/* P(N(0, 1) < x), 5e-7 (results below 1e-36 less).  The tail on the left keeps its digits: the
 * square is taken in two parts for that. */
PARE_SIMD_PART float pare_gaussf(float x)
{
    float a = fabsf(x), hi, q;

    a = a > 15.0f ? 15.0f : a;
    hi = pare_unbits(pare_bits(a) & 0xfffff000);
    q = pare_gauss_tail(a, -0.5f * hi * hi, -0.5f * (a - hi) * (a + hi));
    return x < 0 ? q : 1 - q;
}

/* x P(N(0, 1) < x), which is x (1 + erf(x / sqrt(2))) / 2, as exactly.  -0 at minus infinity. */
PARE_SIMD_PART float pare_geluf(float x)
{
    float left = x < -15.0f ? -15.0f : x;

    return left * pare_gaussf(left);
}

/* The tanh form of the same, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which is x times a
 * sigmoid. */
PARE_SIMD_PART float pare_gelu_tanhf(float x)
{
    float left = x < -15.0f ? -15.0f : x;

    return left * pare_sigmoidf(left * (1.59576912f + 0.0713548163f * left * left));
}

/* Derivatives of the two forms of gelu, 5e-7 of 1: P(N < x) + x phi(x), and s + x s (1 - s) u'
 * for the sigmoid s of u = 1.6 x + 0.07 x^3.  Beyond 15 they are 0 or 1. */
PARE_SIMD_PART float pare_gelu_slopef(float x)
{
    float c = x < -15.0f ? -15.0f : x > 15.0f ? 15.0f : x, a = fabsf(c);
    float hi = pare_unbits(pare_bits(a) & 0xfffff000);
    float e_hi = -0.5f * hi * hi, e_lo = -0.5f * (a - hi) * (a + hi);
    float q = pare_gauss_tail(a, e_hi, e_lo); /* which has the same exponential */

    return (c < 0 ? q : 1 - q) + 0.398942280f * c * pare_exp_sum(e_hi, e_lo);
}

PARE_SIMD_PART float pare_gelu_tanh_slopef(float x)
{
    float c = x < -15.0f ? -15.0f : x > 15.0f ? 15.0f : x;
    float s = pare_sigmoidf(c * (1.59576912f + 0.0713548163f * c * c));

    return s + c * s * (1 - s) * (1.59576912f + 0.214064449f * c * c);
}

#endif
