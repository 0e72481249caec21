/* sparse_tiles.c - products of blocks of sparse weights with pixels, in registers. */
#include "sparse.h"

#include <string.h>

#include "../../base/simd.h"

/* 16 floats, only to be multiplied and added. */
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));

/* ---- tiles --------------------------------------------------------------------------------- */

struct part {
    const int32_t *at;
    const float *w;
    int64_t n;
};

/* Vectors of 16 are for AVX-512 only, where blocks of channels are 16.  On other machines they
 * would be dead code that takes long to compile. */
#ifdef PARE_NO_CLONES
#define TILE_8
#define TILE_16
#else
#define TILE_8 __attribute__((target_clones("default", "arch=x86-64-v3")))
#define TILE_16 __attribute__((target("arch=x86-64-v4")))
#endif

/* R rows of P vectors V of L pixels: R * P sums, P pixels and a weight must fit in registers. */
#define TILE(V, L, R, P)                                                                       \
    TILE_##L static void tile_##L##_##R##_##P(const struct part *b, const struct pare_tile *t) \
    {                                                                                          \
        V sum[R][P];                                                                           \
                                                                                               \
        for (int r = 0; r < R; r++)                                                            \
            for (int p = 0; p < P; p++)                                                        \
                sum[r][p] = t->bias[r] - (V){ 0 };                                             \
        for (int64_t i = 0; i < b->n; i++) {                                                   \
            const float *x = t->x + b->at[i], *w = b->w + i * R;                               \
            V v[P];                                                                            \
                                                                                               \
            for (int p = 0; p < P; p++)                                                        \
                v[p] = *(const V *)(x + p * L);                                                \
            for (int r = 0; r < R; r++)                                                        \
                for (int p = 0; p < P; p++)                                                    \
                    sum[r][p] += w[r] * v[p];                                                  \
        }                                                                                      \
        for (int r = 0; r < R; r++)                                                            \
            for (int p = 0; p < P; p++)                                                        \
                *(V *)(t->y + r * PARE_TILE + p * L) = sum[r][p];                              \
    }

/* What fits: 32 registers of 16 pixels, or 16 of 8. */
#define TILES(T)        \
    T(pare_v8, 8, 1, 1) \
    T(pare_v8, 8, 1, 2) \
    T(pare_v8, 8, 1, 3) \
    T(pare_v8, 8, 1, 4) \
    T(pare_v8, 8, 1, 5) \
    T(pare_v8, 8, 1, 6) \
    T(pare_v8, 8, 4, 1) \
    T(pare_v8, 8, 4, 2) \
    T(pare_v8, 8, 4, 3) \
    T(pare_v8, 8, 8, 1) \
    T(v16, 16, 1, 1)    \
    T(v16, 16, 1, 2)    \
    T(v16, 16, 1, 3)    \
    T(v16, 16, 1, 4)    \
    T(v16, 16, 1, 5)    \
    T(v16, 16, 1, 6)    \
    T(v16, 16, 4, 1)    \
    T(v16, 16, 4, 2)    \
    T(v16, 16, 4, 3)    \
    T(v16, 16, 4, 4)    \
    T(v16, 16, 4, 5)    \
    T(v16, 16, 4, 6)    \
    T(v16, 16, 8, 1)    \
    T(v16, 16, 8, 2)    \
    T(v16, 16, 8, 3)

TILES(TILE)

int pare_tile_max_vectors(int rows, int wide)
{
    if (rows == 8)
        return wide == 16 ? 3 : 1;
    return rows == 4 && wide == 8 ? 3 : 6;
}

void pare_tile_run(const struct pare_sparse *s, int64_t g, const struct pare_tile *t)
{
    int64_t from = s->first[g];
    struct part b = { s->at + from, s->w + from * s->rows, s->first[g + 1] - from };

#define CASE(V, L, R, P) \
    case (L << 8) + (R << 4) + P: tile_##L##_##R##_##P(&b, t); break;
    switch ((t->wide << 8) + (s->rows << 4) + t->vectors) {
        TILES(CASE)
    }
#undef CASE
}

/* ---- transpose ----------------------------------------------------------------------------- */

/* Exchange single elements, pairs, then fours: three rounds transpose 8x8. */
#define LOW1(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH1(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW2(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

PARE_SIMD_PART void transpose8(const float *from, int64_t step, float *to, int64_t to_stride)
{
    pare_v8 a[8], b[8];

    for (int i = 0; i < 8; i++)
        a[i] = PARE_V8(from + i * step);
    for (int i = 0; i < 8; i += 2) {
        b[i] = LOW1(a[i], a[i + 1]);
        b[i + 1] = HIGH1(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            a[i + 2 * k] = LOW2(b[i + k], b[i + k + 2]);
            a[i + 2 * k + 1] = HIGH2(b[i + k], b[i + k + 2]);
        }
    for (int i = 0; i < 4; i++) {
        PARE_PUT8(to + i * to_stride, LOW4(a[i], a[i + 4]));
        PARE_PUT8(to + (i + 4) * to_stride, HIGH4(a[i], a[i + 4]));
    }
}

/* n < 8: the first n of each row. */
PARE_SIMD_PART void transpose_few(const float *from, int64_t step, int64_t n, float *to,
                                  int64_t to_stride)
{
    float some[64] = { 0 };

    for (int64_t i = 0; i < n; i++)
        PARE_PUT8(some + 8 * i, PARE_V8(from + i * step));
    transpose8(some, 8, some, 8);
    for (int j = 0; j < 8; j++)
        if (n >= 4) {
            *(v4 *)(to + j * to_stride) = *(const v4 *)(some + 8 * j);
            *(v4 *)(to + j * to_stride + n - 4) = *(const v4 *)(some + 8 * j + n - 4);
        } else {
            for (int64_t i = 0; i < n; i++)
                to[j * to_stride + i] = some[8 * j + i];
        }
}

PARE_SIMD void pare_transpose_pixels(const float *from, int64_t step, int64_t n, float *to,
                                     int64_t to_stride)
{
    int64_t i = 0;

    if (n < 8) {
        transpose_few(from, step, n, to, to_stride);
        return;
    }
    for (; i + 8 <= n; i += 8)
        transpose8(from + i * step, step, to + i, to_stride);
    if (i < n) /* the last 8, overlapping the previous ones */
        transpose8(from + (n - 8) * step, step, to + n - 8, to_stride);
}

PARE_SIMD void pare_transpose_tile(const float *from, int64_t n, float *to, int lanes)
{
    for (int64_t i = 0; i < n; i += 8)
        for (int k = 0; k < lanes; k += 8)
            transpose8(from + k * PARE_TILE + i, PARE_TILE, to + i * lanes + k, lanes);
}

/* ---- one vector ---------------------------------------------------------------------------- */

/* Four independent sums, to hide the latency of FMA. */
#define TIMES(V, R)                                                                         \
    PARE_SIMD static void times##R(const struct part *b, const float *x, const float *bias, \
                                   float *y)                                                \
    {                                                                                       \
        V s0 = *(const V *)bias, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };                        \
        const int32_t *at = b->at;                                                          \
        const float *w = b->w;                                                              \
        int64_t i = 0;                                                                      \
                                                                                            \
        for (; i + 4 <= b->n; i += 4, w += 4 * R) {                                         \
            s0 += *(const V *)w * x[at[i]];                                                 \
            s1 += *(const V *)(w + R) * x[at[i + 1]];                                       \
            s2 += *(const V *)(w + 2 * R) * x[at[i + 2]];                                   \
            s3 += *(const V *)(w + 3 * R) * x[at[i + 3]];                                   \
        }                                                                                   \
        for (; i < b->n; i++, w += R)                                                       \
            s0 += *(const V *)w * x[at[i]];                                                 \
        *(V *)y = (s0 + s1) + (s2 + s3);                                                    \
    }

TIMES(v4, 4)
TIMES(pare_v8, 8)

PARE_SIMD static float times1(const struct part *b, const float *x)
{
    float sum[8] = { 0 }, rest = 0;
    int64_t i = 0;

    for (; i + 8 <= b->n; i += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += b->w[i + k] * x[b->at[i + k]];
    for (; i < b->n; i++)
        rest += b->w[i] * x[b->at[i]];
    return rest + (sum[0] + sum[1]) + (sum[2] + sum[3]) + (sum[4] + sum[5]) + (sum[6] + sum[7]);
}

void pare_sparse_times(const struct pare_sparse *s, int64_t from, int64_t to, const float *x,
                       const float *bias, float *y)
{
    for (int64_t g = from; g < to; g++) {
        int64_t first = s->first[g], o = g * s->rows, left = s->O - o;
        struct part b = { s->at + first, s->w + first * s->rows, s->first[g + 1] - first };
        float part[8];

        if (s->rows == 8)
            times8(&b, x, bias + o, left < 8 ? part : y + o);
        else if (s->rows == 4)
            times4(&b, x, bias + o, left < 4 ? part : y + o);
        else
            y[g] = bias[g] + times1(&b, x);
        if (left < s->rows)
            memcpy(y + o, part, (size_t)left * sizeof(*y));
    }
}
