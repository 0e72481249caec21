/* winograd_vector_loops.h - transforms of Winograd's tiles for one instruction set.
 *
 * winograd_vector.c includes it once per instruction set, after vec512.h or vec256.h.  A block of
 * channels is a vector.  The points are 0, 1, -1, 2, -2 and infinity.
 */
#ifdef VEC

/* o = B' d, six from six; sd and so are the strides of their elements. */
TARGET static inline __attribute__((always_inline)) void NAME(input6)(const VEC *d, const int sd,
                                                                      VEC *o, const int so)
{
    const VEC a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd], f = d[4 * sd], g = d[5 * sd];
    const VEC even = FMA(ALL(-4.0f), c, f), odd = FMA(ALL(-4.0f), b, e);
    const VEC r = SUB(f, c), s = SUB(e, b);

    o[0] = FMA(ALL(4.0f), a, FMA(ALL(-5.0f), c, f));
    o[so] = ADD(even, odd);
    o[2 * so] = SUB(even, odd);
    o[3 * so] = FMA(ALL(2.0f), s, r);
    o[4 * so] = FMA(ALL(-2.0f), s, r);
    o[5 * so] = FMA(ALL(4.0f), b, FMA(ALL(-5.0f), e, g));
}

/* o = A' d, four from six. */
TARGET static inline __attribute__((always_inline)) void NAME(output4)(const VEC *d, const int sd,
                                                                       VEC *o, const int so)
{
    const VEC a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd], f = d[4 * sd], g = d[5 * sd];
    const VEC even = ADD(b, c), odd = SUB(b, c), r = ADD(e, f), s = SUB(e, f);

    o[0] = ADD(a, ADD(even, r));
    o[so] = FMA(ALL(2.0f), s, odd);
    o[2 * so] = FMA(ALL(4.0f), r, even);
    o[3 * so] = FMA(ALL(8.0f), s, ADD(g, odd));
}

/* B' d B; the lines of d have a stride of `line`. */
TARGET static void NAME(input)(const float *d, int64_t line, float *v, int64_t step)
{
    VEC e[PARE_WINOGRAD];

#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) {
        VEC in[6];

#pragma GCC unroll 6
        for (int i = 0; i < 6; i++)
            in[i] = LOAD(d + i * line + j * BLOCK);
        NAME(input6)(in, 1, e + j, 6);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
        VEC o[6];

        NAME(input6)(e + 6 * i, 1, o, 1);
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++)
            STORE(v + (6 * i + j) * step, o[j]);
    }
}

TARGET static inline __attribute__((always_inline)) VEC NAME(activate)(const struct target *t,
                                                                       VEC v)
{
    if (t->slope != 0)
        v = FMA(ALL(t->slope), MIN(ZERO(), v), MAX(ZERO(), v));
    return MIN(ALL(t->high), MAX(ALL(t->low), v)); /* NaN stays */
}

/* A' m A, bias, what is added, and activation. */
TARGET static void NAME(output)(const float *m, int64_t step, const struct target *t)
{
    const VEC bias = t->bias ? LOAD(t->bias) : ZERO();
    VEC e[24];

#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) {
        VEC in[6];

#pragma GCC unroll 6
        for (int i = 0; i < 6; i++)
            in[i] = LOAD(m + (6 * i + j) * step);
        NAME(output4)(in, 1, e + j, 6);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        VEC o[4];

        NAME(output4)(e + 6 * i, 1, o, 1);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            VEC v = ADD(o[j], bias);

            if (t->added)
                v = ADD(v, LOAD(t->added + i * t->line + j * BLOCK));
            STORE(t->y + i * t->line + j * BLOCK, NAME(activate)(t, v));
        }
    }
}

#endif
