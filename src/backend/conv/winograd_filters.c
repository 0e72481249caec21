/* winograd_filters.c - transforms of the filters of Winograd's F(4x4, 3x3) and of their
 * gradients. */
#include "winograd_tiles.h"

#include <string.h>

#include "../gemm/bf16_pairs.h"

#include "../../base/simd.h"

#define VEC pare_v8
#define PART PARE_SIMD_PART
#include "winograd_points.h"

/* o = G w, six from three. */
static inline void filter6(const pare_v8 *w, int sw, pare_v8 *o, int so)
{
    pare_v8 a = w[0], b = w[sw], c = w[2 * sw];
    pare_v8 p = (a + c) * (-1.0f / 6), q = b * (1.0f / 6);
    pare_v8 r = a * (1.0f / 24) + c * (1.0f / 6), s = b * (1.0f / 12);

    o[0] = a * 0.25f;
    o[so] = p - q;
    o[2 * so] = p + q;
    o[3 * so] = r + s;
    o[4 * so] = r - s;
    o[5 * so] = c;
}

/* o = G' u, three from six. */
static inline void unfilter3(const pare_v8 *u, int su, pare_v8 *o, int so)
{
    pare_v8 a = u[0], b = u[su], c = u[2 * su], d = u[3 * su], e = u[4 * su], f = u[5 * su];
    pare_v8 p = b + c, q = d + e;

    o[0] = a * 0.25f - p * (1.0f / 6) + q * (1.0f / 24);
    o[so] = (c - b) * (1.0f / 6) + (d - e) * (1.0f / 12);
    o[2 * so] = f + (q - p) * (1.0f / 6);
}

/* Transpose 8x8. */
PARE_SIMD_PART void transpose8(pare_v8 r[8])
{
    pare_v8 t[8];

    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + j + 2] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14,
                                                   15);
        }
    for (int i = 0; i < 4; i++) {
        t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    memcpy(r, t, sizeof(t));
}

/* d[j], lane l = element j of the filter at from + l * step. */
PARE_SIMD_PART void load_nine(const float *from, int64_t step, pare_v8 d[9])
{
    for (int l = 0; l < 8; l++)
        d[l] = PARE_V8(from + l * step);
    d[8] = (pare_v8){ from[8],
                      from[8 + step],
                      from[8 + 2 * step],
                      from[8 + 3 * step],
                      from[8 + 4 * step],
                      from[8 + 5 * step],
                      from[8 + 6 * step],
                      from[8 + 7 * step] };
    transpose8(d);
}

/* The filters are scattered in memory, beyond the reach of the hardware prefetcher: prefetch the
 * filters of later rows. */
PARE_SIMD_PART void prefetch_filters(const struct pare_winograd_filters *f, const float *from,
                                     int64_t step)
{
    if (f->rotated)
        for (int i = 0; i < 5; i++)
            __builtin_prefetch(from + 4 * f->I * 9 + i * 16);
    else
        for (int l = 0; l < 8; l++)
            __builtin_prefetch(from + l * step + 64);
}

/* The filters from channel k to channels c, c + 1, ... of the packed matrix's columns; by a copy at
 * the edge, where some are padding. */
PARE_SIMD_PART void load_filters(const struct pare_winograd_filters *f, int64_t k, int64_t c,
                                 pare_v8 d[9])
{
    int64_t columns = f->rotated ? f->I : f->O, rows = f->rotated ? f->O : f->I;
    int64_t step = f->rotated ? 9 : f->I * 9;
    const float *from = f->w + (f->rotated ? (k * f->I + c) : (c * f->I + k)) * 9;
    float edge[8 * 9];

    if (k >= rows || c + 8 > columns) {
        memset(edge, 0, sizeof(edge));
        for (int64_t l = 0; l < 8 && c + l < columns && k < rows; l++)
            memcpy(edge + l * 9, from + l * step, 9 * sizeof(*edge));
        from = edge;
        step = 9;
    }
    prefetch_filters(f, from, step);
    load_nine(from, step, d);
    if (f->scale && !f->rotated) {
        float s[8] = { 0 };

        for (int64_t l = 0; l < 8 && c + l < columns; l++)
            s[l] = f->scale[c + l];
        for (int j = 0; j < 9; j++)
            d[j] *= PARE_V8(s);
    }
}

/* Transform filters d of one row: eight columns of a part, from c on. */
PARE_SIMD_PART void store_eight(const struct pare_winograd_filters *f,
                                const struct pare_winograd_part *p, int64_t k, int64_t c,
                                const pare_v8 d[9], float *u)
{
    const int turn = f->rotated ? 8 : 0, way = f->rotated ? -1 : 1;
    float *to = u + pare_packed_gemm_at(p->rows, p->blocks, f->block, k, c);
    pare_v8 w[9], e[18], t[PARE_WINOGRAD];

    for (int j = 0; j < 9; j++)
        w[j] = d[turn + way * j];
    for (int j = 0; j < 3 && !f->bf16; j++)
        filter6(w + j, 3, e + j, 3);
    for (int i = 0; i < 6 && !f->bf16; i++)
        filter6(e + 3 * i, 1, t + 6 * i, 1);
    for (int j = 0; j < 3 && f->bf16; j++)
        filter6_at(w + j, 3, e + j, 3, PARE_WINOGRAD_BF16);
    for (int i = 0; i < 6 && f->bf16; i++)
        filter6_at(e + 3 * i, 1, t + 6 * i, 1, PARE_WINOGRAD_BF16);
    for (int i = 0; i < PARE_WINOGRAD; i++)
        PARE_PUT8(to + i * p->step, t[i]);
}

PARE_SIMD_PART void filter_eight(const struct pare_winograd_filters *f,
                                 const struct pare_winograd_part *p, int64_t k, int64_t c, float *u)
{
    pare_v8 d[9];

    load_filters(f, p->row + k, p->column + c, d);
    store_eight(f, p, k, c, d, u);
}

/* ---- blocked filters ------------------------------------------------------------------------- */

/* Offset of the first tap of the filter from channel i to o; the stride of taps is block *
 * block. */
static inline int64_t blocked_offset(const struct pare_winograd_filters *f, int64_t o, int64_t i)
{
    int64_t b = f->block;

    return (o / b * (f->I / b) + i / b) * 9 * b * b + i % b * b + o % b;
}

PARE_SIMD_PART void filter_eight_blocked(const struct pare_winograd_filters *f,
                                         const struct pare_winograd_part *p, int64_t k, int64_t c,
                                         float *u)
{
    const float *from = f->w + blocked_offset(f, p->column + c, p->row + k);
    pare_v8 d[9];

    for (int j = 0; j < 9; j++)
        d[j] = PARE_V8(from + j * f->block * f->block);
    store_eight(f, p, k, c, d, u);
}

/* Rotated, eight rows: the vectors belong to eight different rows. */
PARE_SIMD_PART void filter_square_blocked(const struct pare_winograd_filters *f,
                                          const struct pare_winograd_part *p, int64_t k, int64_t c,
                                          float *u)
{
    const float *from = f->w + blocked_offset(f, p->row + k, p->column + c);
    pare_v8 d[8][9], r[8];

    for (int j = 0; j < 9; j++) {
        for (int l = 0; l < 8; l++)
            r[l] = PARE_V8(from + (j * f->block + l) * f->block);
        transpose8(r);
        for (int m = 0; m < 8; m++)
            d[m][j] = r[m];
    }
    for (int m = 0; m < 8; m++)
        store_eight(f, p, k + m, c, d[m], u);
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* A block of rows and eight columns: they share cache lines. */
PARE_SIMD static void filter_range_blocked(const struct pare_winograd_filters *f,
                                           const struct pare_winograd_part *p,
                                           const struct pare_winograd_range *r, float *u)
{
    int64_t b = f->block;

    for (int64_t c = r->c; c < r->c_end && !f->rotated; c += b)
        for (int64_t k = r->k; k < r->k_end; k++)
            for (int64_t l = c; l < c + b; l += 8)
                filter_eight_blocked(f, p, k, l, u);
    for (int64_t k = r->k; k < r->k_end && f->rotated; k += b)
        for (int64_t c = r->c; c < r->c_end; c += 8)
            for (int64_t l = k; l < k + b; l += 8)
                filter_square_blocked(f, p, l, c, u);
}

PARE_SIMD static void filter_range(const struct pare_winograd_filters *f,
                                   const struct pare_winograd_part *p,
                                   const struct pare_winograd_range *r, float *u)
{
    if (f->rotated) {
        for (int64_t k = r->k; k < r->k_end; k++)
            for (int64_t c = r->c; c < r->c_end; c += 8)
                filter_eight(f, p, k, c, u);
    } else {
        for (int64_t c = r->c; c < r->c_end; c += 8)
            for (int64_t k = r->k; k < r->k_end; k++)
                filter_eight(f, p, k, c, u);
    }
}

/* Panel b of position i: its pairs of rows, in the place of the first half of the rows. */
static void round_panel(const struct pare_winograd_filters *f, const struct pare_winograd_part *p,
                        int i, int64_t b, float *u)
{
    const int64_t width = (b + 1 < p->blocks ? 2 : 1) * f->block;
    const float *from = u + i * p->step +
                        pare_packed_gemm_at(p->rows, p->blocks, f->block, 0, b * f->block);
    float *to = u + i * p->step +
                pare_packed_gemm_at(p->rows / 2, p->blocks, f->block, 0, b * f->block);

    for (int64_t k = 0; k < p->rows / 2; k++)
        pare_bf16_zip(from + 2 * k * width, from + (2 * k + 1) * width, width, to + k * width);
}

/* A position's panels move forward, so that they are rounded in order. */
static void round_position(const struct pare_winograd_filters *f,
                           const struct pare_winograd_part *p, int i, float *u)
{
    for (int64_t b = 0; b < p->blocks; b += 2)
        round_panel(f, p, i, b, u);
}

/* Are filters rounded when they are transformed, not after that? */
static bool rounds_at_once(const struct pare_winograd_filters *f)
{
    return f->blocked && pare_winograd_wide(f->bf16, f->block);
}

static void filter_some(const struct pare_winograd_filters *f, const struct pare_winograd_part *p,
                        const struct pare_winograd_range *r, float *u)
{
    if (rounds_at_once(f))
        pare_winograd_wide_filters(f, p, r, u);
    else if (f->blocked)
        filter_range_blocked(f, p, r, u);
    else
        filter_range(f, p, r, u);
}

void pare_winograd_filter_part(const struct pare_winograd_filters *f,
                               const struct pare_winograd_part *p, float *u)
{
    struct pare_winograd_range all = { .k_end = p->rows, .c_end = p->blocks * f->block };

    filter_some(f, p, &all, u);
    for (int i = 0; i < PARE_WINOGRAD && f->bf16 && !rounds_at_once(f); i++)
        round_position(f, p, i, u);
}

void pare_winograd_filters(const struct pare_winograd_filters *f, float *u)
{
    struct pare_winograd_part p = {
        .rows = f->rotated ? f->o : f->i,
        .blocks = (f->rotated ? f->i : f->o) / f->block,
        .step = pare_winograd_step(f->o, f->i),
    };
    int64_t columns = p.blocks * f->block;

#pragma omp parallel for num_threads(f->threads) collapse(2)
    for (int64_t c = 0; c < columns; c += 32)
        for (int64_t k = 0; k < p.rows; k += 32) {
            struct pare_winograd_range r = {
                .k = k,
                .k_end = k + 32 < p.rows ? k + 32 : p.rows,
                .c = c,
                .c_end = c + 32 < columns ? c + 32 : columns,
            };

            filter_some(f, &p, &r, u);
        }
    if (f->bf16 && !rounds_at_once(f)) {
#pragma omp parallel for num_threads(f->threads)
        for (int i = 0; i < PARE_WINOGRAD; i++)
            round_position(f, &p, i, u);
    }
}

/* w[l * 9 + j] = or, `add`, += lane l of d[j]. */
PARE_SIMD_PART void store_nine(pare_v8 d[9], bool add, float *w)
{
    transpose8(d);
    for (int l = 0; l < 8; l++) {
        float *to = w + l * 9;

        if (add) {
            d[l] += PARE_V8(to);
            to[8] += d[8][l];
        } else {
            to[8] = d[8][l];
        }
        PARE_PUT8(to, d[l]);
    }
}

/* Eight filters from 36 positions. */
PARE_SIMD_PART void unfilter_eight(const float *u, int64_t step, bool bf16, pare_v8 t[9])
{
    pare_v8 d[PARE_WINOGRAD], e[18];

    for (int k = 0; k < PARE_WINOGRAD; k++)
        d[k] = PARE_V8(u + k * step);
    for (int j = 0; j < 6 && !bf16; j++)
        unfilter3(d + j, 6, e + j, 6);
    for (int i = 0; i < 3 && !bf16; i++)
        unfilter3(e + 6 * i, 1, t + 3 * i, 1);
    for (int j = 0; j < 6 && bf16; j++)
        unfilter3_at(d + j, 6, e + j, 6, PARE_WINOGRAD_BF16);
    for (int i = 0; i < 3 && bf16; i++)
        unfilter3_at(e + 6 * i, 1, t + 3 * i, 1, PARE_WINOGRAD_BF16);
}

PARE_SIMD static void unfilter_row(const struct pare_winograd_filters *f,
                                   const struct pare_winograd_part *p, const float *u,
                                   int64_t count, bool add, float *w)
{
    for (int64_t c = 0; c < count; c += 8) {
        pare_v8 t[9];
        float edge[8 * 9];

        unfilter_eight(u + c, p->step, f->bf16, t);
        if (c + 8 <= count) {
            store_nine(t, add, w + c * 9);
            continue;
        }
        store_nine(t, false, edge);
        for (int64_t i = 0; i < (count - c) * 9; i++)
            w[c * 9 + i] = add ? w[c * 9 + i] + edge[i] : edge[i];
    }
}

/* Eight rows and columns of a part, to blocked filters. */
PARE_SIMD_PART void unfilter_square(const struct pare_winograd_filters *f,
                                    const struct pare_winograd_part *p, const float *u, bool add,
                                    float *to)
{
    int64_t b = f->block;
    pare_v8 t[8][9], r[8];

    for (int m = 0; m < 8; m++)
        unfilter_eight(u + m * p->blocks * b, p->step, f->bf16, t[m]);
    for (int j = 0; j < 9; j++) {
        for (int m = 0; m < 8; m++)
            r[m] = t[m][j];
        transpose8(r);
        for (int l = 0; l < 8; l++) {
            float *at = to + (j * b + l) * b;

            if (add)
                r[l] += PARE_V8(at);
            PARE_PUT8(at, r[l]);
        }
    }
}

PARE_SIMD static void unfilter_blocked(const struct pare_winograd_filters *f,
                                       const struct pare_winograd_part *p, const float *u, bool add,
                                       float *w)
{
    int64_t width = p->blocks * f->block;

    for (int64_t o = 0; o < p->rows; o += f->block)
        for (int64_t c = 0; c < width; c += 8)
            for (int64_t l = o; l < o + f->block && l < p->rows; l += 8)
                unfilter_square(f, p, u + l * width + c, add,
                                w + blocked_offset(f, p->row + l, p->column + c));
}

void pare_winograd_unfilter_part(const struct pare_winograd_filters *f,
                                 const struct pare_winograd_part *p, const float *u, bool add,
                                 float *w)
{
    int64_t width = p->blocks * f->block, count = f->I - p->column;

    if (f->blocked) {
        unfilter_blocked(f, p, u, add, w);
        return;
    }
    count = count < width ? count : width;
    for (int64_t o = p->row; o < p->row + p->rows && o < f->O; o++)
        unfilter_row(f, p, u + (o - p->row) * width, count, add, w + (o * f->I + p->column) * 9);
}

void pare_winograd_unfilter(const struct pare_winograd_filters *f, const float *u, bool add,
                            float *w)
{
#pragma omp parallel for num_threads(f->threads)
    for (int64_t o = 0; o < f->O; o += f->block) {
        struct pare_winograd_part p = {
            .row = o,
            .rows = f->block,
            .blocks = f->i / f->block,
            .step = pare_winograd_step(f->o, f->i),
        };

        pare_winograd_unfilter_part(f, &p, u + o * f->i, add, w);
    }
}
