/* vec_math.h - sigmoid and tanh of vectors of one instruction set.
 *
 * No include guard: it is included after vec512.h, vec256.h or vec_plain.h, and NaN in gives NaN
 * out.
 */
#ifdef VEC

/* 1 / (1 + exp(-x)), 3e-7 relative: 2^f for |f| <= 1/2 is a polynomial, 2^k is added to the
 * exponent bits.  Beyond 87 the result would be denormal. */
TARGET static inline __attribute__((always_inline)) void NAME(sigmoid)(const VEC *x, VEC *y)
{
    VEC t = MUL(*x, ALL(-1.44269504f)), k, q;

    t = MAX(ALL(-125.0f), t);
    t = MIN(ALL(125.0f), t);
    k = ROUND(t);
    t = SUB(t, k);
    q = FMA(t, ALL(1.32764716e-3f), ALL(9.67554137e-3f));
    q = FMA(q, t, ALL(5.55071328e-2f));
    q = FMA(q, t, ALL(2.40221197e-1f));
    q = FMA(q, t, ALL(6.93146967e-1f));
    q = FMA(q, t, ALL(1.00000007f));
    q = ADD(TIMES_POW2(q, k), ALL(1.0f));
    *y = INVERSE(q);
}

/* tanh(x), 3e-7 relative, also near 0: with e = exp(2x) - 1, which is 2^k (2^f - 1) + (2^k - 1) for
 * |f| <= 1/2, tanh(x) = e / (e + 2).  Beyond 10 the result is 1. */
TARGET static inline __attribute__((always_inline)) void NAME(tanh)(const VEC *x, VEC *y)
{
    VEC t = MUL(*x, ALL(2.88539008f)), k, q, s;

    t = MAX(ALL(-29.0f), t);
    t = MIN(ALL(29.0f), t);
    k = ROUND(t);
    t = SUB(t, k);
    q = FMA(t, ALL(1.54614478e-4f), ALL(1.33908668e-3f));
    q = FMA(q, t, ALL(9.61805694e-3f));
    q = FMA(q, t, ALL(5.55035695e-2f));
    q = FMA(q, t, ALL(2.40226507e-1f));
    q = FMA(q, t, ALL(6.93147182e-1f));
    s = TIMES_POW2(ALL(1.0f), k);
    q = FMA(s, MUL(q, t), SUB(s, ALL(1.0f)));
    s = ADD(q, ALL(2.0f));
    *y = MUL(q, INVERSE(s));
}

#endif
