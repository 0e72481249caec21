/* vec_plain.h - portable vectors of eight floats, two registers of 128 bits; see vec512.h.
 *
 * A pair is a struct instead of a vector of 256 bits (base/simd.h), which gcc keeps in memory where
 * registers are shorter: packed products take a tenth of the time.
 */
#ifndef PARE_BACKEND_SIMD_VEC_PLAIN_H
#define PARE_BACKEND_SIMD_VEC_PLAIN_H

#include <stdint.h>

#include "../../base/simd.h"

typedef float pare_v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int pare_m4 __attribute__((vector_size(16), aligned(4), may_alias));

struct pare_pair {
    pare_v4 lo, hi;
};

#define PARE_PAIR_FUNCTION(name, expression)                                                 \
    PARE_SIMD_PART pare_v4 pare_v4_##name(pare_v4 a, pare_v4 b)                              \
    {                                                                                        \
        return expression;                                                                   \
    }                                                                                        \
    PARE_SIMD_PART struct pare_pair pare_pair_##name(struct pare_pair a, struct pare_pair b) \
    {                                                                                        \
        return (struct pare_pair){ pare_v4_##name(a.lo, b.lo), pare_v4_##name(a.hi, b.hi) }; \
    }

/* a where the mask has ones, b elsewhere. */
#define PARE_PICK4(holds, a, b) ((pare_v4)(((holds) & (pare_m4)(a)) | (~(holds) & (pare_m4)(b))))
/* 1.5 * 2^23: sums with it are integers. */
#define PARE_ROUNDER 12582912.0f

PARE_PAIR_FUNCTION(add, a + b)
PARE_PAIR_FUNCTION(sub, a - b)
PARE_PAIR_FUNCTION(mul, a *b)
PARE_PAIR_FUNCTION(div, a / b)
PARE_PAIR_FUNCTION(max, PARE_PICK4(a > b, a, b))
PARE_PAIR_FUNCTION(min, PARE_PICK4(a < b, a, b))
PARE_PAIR_FUNCTION(times_pow2, (pare_v4)((pare_m4)a + ((pare_m4)(b + PARE_ROUNDER) << 23)))

PARE_SIMD_PART struct pare_pair pare_pair_load(const float *p)
{
    return (struct pare_pair){ *(const pare_v4 *)p, *(const pare_v4 *)(p + 4) };
}

PARE_SIMD_PART void pare_pair_store(float *p, struct pare_pair v)
{
    *(pare_v4 *)p = v.lo;
    *(pare_v4 *)(p + 4) = v.hi;
}

PARE_SIMD_PART struct pare_pair pare_pair_all(float a)
{
    return (struct pare_pair){ { a, a, a, a }, { a, a, a, a } };
}

/* Lane k is lane i[k] of v. */
PARE_SIMD_PART struct pare_pair pare_pair_permute(struct pare_pair v, const int32_t *i)
{
    float a[8], b[8];

    pare_pair_store(a, v);
    for (int k = 0; k < 8; k++)
        b[k] = a[i[k]];
    return pare_pair_load(b);
}

#endif

#define VEC struct pare_pair
#define LOAD(p) pare_pair_load(p)
#define STORE(p, v) pare_pair_store(p, v)
#define ZERO() pare_pair_all(0)
#define ALL(a) pare_pair_all(a)
#define FMA(a, b, c) pare_pair_add(pare_pair_mul(a, b), c)
#define ADD(a, b) pare_pair_add(a, b)
#define SUB(a, b) pare_pair_sub(a, b)
#define MUL(a, b) pare_pair_mul(a, b)
#define MAX(a, b) pare_pair_max(a, b)
#define MIN(a, b) pare_pair_min(a, b)
#define ROUND(v) SUB(ADD(v, ALL(PARE_ROUNDER)), ALL(PARE_ROUNDER))
#define TIMES_POW2(v, k) pare_pair_times_pow2(v, k)
#define INVERSE(v) pare_pair_div(ALL(1.0f), v)
#define KEEP(v) ((void)0)
#define INDEX const int32_t *
#define LOAD_INDEX(p) (p)
#define PERMUTE(v, i) pare_pair_permute(v, i)
#define BLOCK 8
#define TARGET
#define NAME(x) x##_plain
