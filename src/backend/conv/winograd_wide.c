/* winograd_wide.c - transforms of Winograd's F(4x4, 3x3) with AVX512_BF16: sixteen channels at a
 * time, rounded to bf16 in registers. */
#include "winograd_tiles.h"

#include "../gemm/bf16_pairs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("arch=x86-64-v4,avx512bf16")))
#define PART TARGET static inline __attribute__((always_inline))
#define POINTS PARE_WINOGRAD_BF16
#define WIDTH 16

typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));

#define VEC vec16
#include "winograd_points.h"

#define V16(p) (*(const vec16 *)(p))

bool pare_winograd_wide(bool bf16, int block)
{
    return bf16 && block == WIDTH && pare_bf16_native();
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static int64_t plane_of(const struct pare_winograd_side *s, const struct pare_winograd_tile *t,
                        int64_t c)
{
    return (t->image * s->channels + c) * s->h * s->w;
}

/* Column j of a tile of n x n elements; zeros outside. */
PART void load_column(const struct pare_winograd_tile *t, const float *x, const int n, int j,
                      const bool inside, vec16 *d)
{
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) {
        const int64_t at = t->at[i * n + j];

        if (inside || at >= 0)
            d[i] = V16(x + at * WIDTH);
        else
            d[i] = (vec16){ 0 };
    }
}

/* The columns of a tile transformed: six rows of n. */
PART void transform_columns(const struct pare_winograd_tile *t, const float *x, const int n,
                            const bool inside, vec16 *e)
{
#pragma GCC unroll 6
    for (int j = 0; j < n; j++) {
        vec16 d[6];

        load_column(t, x, n, j, inside, d);
        if (n == 6)
            input6(d, 1, e + j, n, POINTS);
        else
            spread6(d, 1, e + j, n, POINTS);
    }
}

/* One row of them transformed. */
PART void transform_row(const vec16 *e, const int n, vec16 o[6])
{
    if (n == 6)
        input6(e, 1, o, 1, POINTS);
    else
        spread6(e, 1, o, 1, POINTS);
}

/* Positions of a tile from its columns' transforms. */
PART void columns_of(const struct pare_winograd_tile *t, const float *x, const int n, vec16 *e)
{
    if (t->at[0] >= 0 && t->at[n * n - 1] >= 0)
        transform_columns(t, x, n, true, e);
    else
        transform_columns(t, x, n, false, e);
}

TARGET void pare_winograd_wide_in(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                                  const float *x, float *v, int64_t step)
{
    for (int64_t c = 0; c < g->from.channels; c += WIDTH) {
        vec16 e[PARE_WINOGRAD];

        columns_of(t, x + plane_of(&g->from, t, c), 6, e);
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) {
            vec16 o[6];

            transform_row(e + 6 * i, 6, o);
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                _mm256_storeu_si256((__m256i *)(v + (6 * i + j) * step + c / 2),
                                    (__m256i)_mm512_cvtneps_pbh((__m512)o[j]));
        }
    }
}

/* to = pairs (x, y) of each channel. */
PART void store_zipped(const vec16 *x, const vec16 *y, float *to)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                  order = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x10001)),
                                           _mm512_set1_epi32(16 << 16)); /* 0, 16, 1, 17, ... */

    _mm512_storeu_si512(to,
                        _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)*y,
                                                                                     (__m512)*x)));
}

PART void zip_tiles(const struct pare_winograd_zip *z, const struct pare_winograd_side *s,
                    const int n, float *v, int64_t step)
{
    for (int64_t c = 0; c < s->channels; c += WIDTH) {
        vec16 e[2][PARE_WINOGRAD];

        for (int k = 0; k < z->n; k++)
            columns_of(&z->tile[k], z->from + plane_of(s, &z->tile[k], c), n, e[k]);
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) {
            vec16 o[2][6] = { 0 };

            transform_row(e[0] + n * i, n, o[0]);
            if (z->n > 1)
                transform_row(e[1] + n * i, n, o[1]);
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                store_zipped(&o[0][j], &o[1][j], v + (6 * i + j) * step + c);
        }
    }
}

TARGET void pare_winograd_wide_zip(const struct pare_winograd *g, const struct pare_winograd_zip *z,
                                   float *v, int64_t step)
{
    if (z->back)
        zip_tiles(z, &g->to, 4, v, step);
    else
        zip_tiles(z, &g->from, 6, v, step);
}

TARGET void pare_winograd_wide_out(const struct pare_winograd *g,
                                   const struct pare_winograd_tile *t,
                                   const struct pare_winograd_run *r, const float *m, int64_t step)
{
    for (int64_t c = 0; c < g->to.channels; c += WIDTH) {
        float *y = r->y + plane_of(&g->to, t, c);
        vec16 e[24], bias = { 0 };

        if (r->bias)
            bias = V16(r->bias + c);
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            vec16 d[6];

#pragma GCC unroll 6
            for (int i = 0; i < 6; i++)
                d[i] = V16(m + (6 * i + j) * step + c);
            output4(d, 1, e + j, 6, POINTS);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vec16 o[4];

            output4(e + 6 * i, 1, o, 1, POINTS);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const int64_t at = t->at[4 * i + j];

                if (at < 0)
                    continue;
                o[j] += bias;
                if (r->add)
                    o[j] += V16(y + at * WIDTH);
                *(vec16 *)(y + at * WIDTH) = o[j];
            }
        }
    }
}

/* ---- blocked filters ------------------------------------------------------------------------- */

/* Offset of the first tap of the filter from channel i to o, multiples of a block or not. */
static int64_t tap_offset(const struct pare_winograd_filters *f, int64_t o, int64_t i)
{
    return (o / WIDTH * (f->I / WIDTH) + i / WIDTH) * 9 * WIDTH * WIDTH + i % WIDTH * WIDTH +
           o % WIDTH;
}

/* Two rows of filters, w[0] and w[1], to the pairs of row k / 2 from column c on. */
PART void store_filters(const struct pare_winograd_filters *f, const struct pare_winograd_part *p,
                        int64_t k, int64_t c, const vec16 w[2][9], float *u)
{
    float *to = u + pare_packed_gemm_at(p->rows / 2, p->blocks, f->block, k / 2, c);
    vec16 e[2][18];

#pragma GCC unroll 2
    for (int m = 0; m < 2; m++)
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++)
            filter6_at(w[m] + j, 3, e[m] + j, 3, POINTS);
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
        vec16 o[2][6];

        filter6_at(e[0] + 3 * i, 1, o[0], 1, POINTS);
        filter6_at(e[1] + 3 * i, 1, o[1], 1, POINTS);
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++)
            store_zipped(&o[0][j], &o[1][j], to + (6 * i + j) * p->step);
    }
}

/* Columns are output channels, as in the blocked filters. */
TARGET static void filters_straight(const struct pare_winograd_filters *f,
                                    const struct pare_winograd_part *p,
                                    const struct pare_winograd_range *r, float *u)
{
    for (int64_t c = r->c; c < r->c_end; c += WIDTH)
        for (int64_t k = r->k; k < r->k_end; k += 2) {
            const float *from = f->w + tap_offset(f, p->column + c, p->row + k);
            vec16 w[2][9];

#pragma GCC unroll 9
            for (int j = 0; j < 9; j++) {
                w[0][j] = V16(from + j * WIDTH * WIDTH);
                w[1][j] = V16(from + j * WIDTH * WIDTH + WIDTH);
            }
            store_filters(f, p, k, c, (const vec16(*)[9])w, u);
        }
}

/* Transpose 16 x 16. */
PART void transpose16(const float *from, __m512 r[16])
{
    __m512 t[16];

#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        __m512 a = _mm512_loadu_ps(from + i * WIDTH), b = _mm512_loadu_ps(from + (i + 1) * WIDTH);

        t[i] = _mm512_unpacklo_ps(a, b);
        t[i + 1] = _mm512_unpackhi_ps(a, b);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16;
         i += 4) { /* r[i + m]: column m of each lane of 128 bits, rows i to i + 3 */
        __m512d a = (__m512d)t[i], b = (__m512d)t[i + 1], c = (__m512d)t[i + 2],
                d = (__m512d)t[i + 3];

        r[i] = (__m512)_mm512_unpacklo_pd(a, c);
        r[i + 1] = (__m512)_mm512_unpackhi_pd(a, c);
        r[i + 2] = (__m512)_mm512_unpacklo_pd(b, d);
        r[i + 3] = (__m512)_mm512_unpackhi_pd(b, d);
    }
#pragma GCC unroll 4
    for (int m = 0; m < 4; m++) {
        __m512 low = _mm512_shuffle_f32x4(r[m], r[4 + m], 0x88),
               high = _mm512_shuffle_f32x4(r[m], r[4 + m], 0xdd);
        __m512 low2 = _mm512_shuffle_f32x4(r[8 + m], r[12 + m], 0x88),
               high2 = _mm512_shuffle_f32x4(r[8 + m], r[12 + m], 0xdd);

        t[m] = _mm512_shuffle_f32x4(low, low2, 0x88);
        t[8 + m] = _mm512_shuffle_f32x4(low, low2, 0xdd);
        t[4 + m] = _mm512_shuffle_f32x4(high, high2, 0x88);
        t[12 + m] = _mm512_shuffle_f32x4(high, high2, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = t[i];
}

/* Columns are input channels: blocks of filters are transposed, and turned by 180 degrees. */
TARGET static void filters_rotated(const struct pare_winograd_filters *f,
                                   const struct pare_winograd_part *p,
                                   const struct pare_winograd_range *r, float *u)
{
    for (int64_t k = r->k; k < r->k_end; k += WIDTH)
        for (int64_t c = r->c; c < r->c_end; c += WIDTH) {
            const float *from = f->w + tap_offset(f, p->row + k, p->column + c);
            vec16 w[WIDTH][9];

            for (int j = 0; j < 9; j++) {
                __m512 square[WIDTH];

                transpose16(from + j * WIDTH * WIDTH, square);
#pragma GCC unroll 16
                for (int m = 0; m < WIDTH; m++)
                    w[m][8 - j] = (vec16)square[m];
            }
            for (int m = 0; m < WIDTH; m += 2)
                store_filters(f, p, k + m, c, (const vec16(*)[9])(w + m), u);
        }
}

void pare_winograd_wide_filters(const struct pare_winograd_filters *f,
                                const struct pare_winograd_part *p,
                                const struct pare_winograd_range *r, float *u)
{
    (f->rotated ? filters_rotated : filters_straight)(f, p, r, u);
}

#else

bool pare_winograd_wide(bool bf16, int block)
{
    (void)bf16;
    (void)block;
    return false;
}

void pare_winograd_wide_in(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                           const float *x, float *v, int64_t step)
{
    pare_winograd_in_pairs(g, t, x, v, step);
}

void pare_winograd_wide_zip(const struct pare_winograd *g, const struct pare_winograd_zip *z,
                            float *v, int64_t step)
{
    (void)g;
    (void)z;
    (void)v;
    (void)step;
}

void pare_winograd_wide_out(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                            const struct pare_winograd_run *r, const float *m, int64_t step)
{
    pare_winograd_out(g, t, r, m, step);
}

void pare_winograd_wide_filters(const struct pare_winograd_filters *f,
                                const struct pare_winograd_part *p,
                                const struct pare_winograd_range *r, float *u)
{
    (void)f;
    (void)p;
    (void)r;
    (void)u;
}

#endif
