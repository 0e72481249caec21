/* dgemm.c - matrix product in double by packed tiles, of doubles or floats with any strides.
 *
 * A task is a tile of c: it packs DEPTH rows of b in panels of WIDE columns and as many columns of
 * a in panels of HIGH rows, whose products are summed in registers and then added to c.
 */
#include <string.h>

#include "../../base/simd.h"
#include "cholesky.h"

#define TILE 64
#define DEPTH 128
#define HIGH 4
#define WIDE 16
#define SMALL 32768 /* multiplications that one thread does */

/* Eight doubles; need not be aligned. */
typedef double v8 __attribute__((vector_size(64), aligned(8), may_alias));

struct part {
    int64_t row, rows, column, columns; /* of c */
    int64_t k, depth;                   /* of the sum */
};

/* Packs `lines` of an operand, `depth` elements each, in panels of `wide` lines, filled up with
 * zeros: to[panel][k][line]. */
PARE_SIMD_PART void pack(const struct pare_dmatrix *x, int64_t at, int64_t line, int64_t step,
                         const int64_t size[2], int wide, double *to)
{
    for (int64_t p = 0; p < size[0]; p += wide) {
        int64_t n = size[0] - p < wide ? size[0] - p : wide;

        for (int64_t k = 0; k < size[1]; k++, to += wide) {
            int64_t from = at + p * line + k * step;

            if (x->d)
                for (int64_t i = 0; i < n; i++)
                    to[i] = x->d[from + i * line];
            else
                for (int64_t i = 0; i < n; i++)
                    to[i] = (double)x->f[from + i * line];
            for (int64_t i = n; i < wide; i++)
                to[i] = 0;
        }
    }
}

/* The product of two panels. */
PARE_SIMD_PART void multiply(const double *a, const double *b, int64_t depth, v8 sum[HIGH][2])
{
    v8 s00 = { 0 }, s01 = { 0 }, s10 = { 0 }, s11 = { 0 };
    v8 s20 = { 0 }, s21 = { 0 }, s30 = { 0 }, s31 = { 0 };

    for (int64_t k = 0; k < depth; k++, a += HIGH, b += WIDE) {
        v8 b0 = *(const v8 *)b, b1 = *(const v8 *)(b + 8);

        s00 += a[0] * b0;
        s01 += a[0] * b1;
        s10 += a[1] * b0;
        s11 += a[1] * b1;
        s20 += a[2] * b0;
        s21 += a[2] * b1;
        s30 += a[3] * b0;
        s31 += a[3] * b1;
    }
    sum[0][0] = s00, sum[0][1] = s01, sum[1][0] = s10, sum[1][1] = s11;
    sum[2][0] = s20, sum[2][1] = s21, sum[3][0] = s30, sum[3][1] = s31;
}

PARE_SIMD_PART void add(const struct pare_dgemm *p, const struct part *t, int64_t i, int64_t j,
                        v8 sum[HIGH][2])
{
    int64_t rows = t->rows - i < HIGH ? t->rows - i : HIGH;
    int64_t columns = t->columns - j < WIDE ? t->columns - j : WIDE;
    double s[HIGH][WIDE];

    /* cppcheck-suppress bufferAccessOutOfBounds ; a vector is eight numbers */
    memcpy(s, sum, sizeof(s));
    for (int64_t r = 0; r < rows; r++) {
        double *c = p->c + (t->row + i + r) * p->ldc + t->column + j;

        for (int64_t n = 0; n < columns; n++)
            c[n] += p->sign * s[r][n];
    }
}

PARE_SIMD static void tile_part(const struct pare_dgemm *p, const struct part *t)
{
    double a[TILE * DEPTH], b[TILE * DEPTH];
    const int64_t high[2] = { t->rows, t->depth }, wide[2] = { t->columns, t->depth };

    pack(&p->a, t->row * p->a.row + t->k * p->a.column, p->a.row, p->a.column, high, HIGH, a);
    pack(&p->b, t->k * p->b.row + t->column * p->b.column, p->b.column, p->b.row, wide, WIDE, b);
    for (int64_t j = 0; j < t->columns; j += WIDE)
        for (int64_t i = 0; i < t->rows; i += HIGH) {
            v8 sum[HIGH][2];

            multiply(a + i * t->depth, b + j * t->depth, t->depth, sum);
            add(p, t, i, j, sum);
        }
}

static void tile(const struct pare_dgemm *p, int64_t i, int64_t j)
{
    struct part t = { .row = i * TILE, .column = j * TILE };

    t.rows = p->m - t.row < TILE ? p->m - t.row : TILE;
    t.columns = p->n - t.column < TILE ? p->n - t.column : TILE;
    for (t.k = 0; t.k < p->k; t.k += DEPTH) {
        t.depth = p->k - t.k < DEPTH ? p->k - t.k : DEPTH;
        tile_part(p, &t);
    }
}

void pare_dgemm(const struct pare_dgemm *p)
{
    const int64_t rows = (p->m + TILE - 1) / TILE, columns = (p->n + TILE - 1) / TILE;
    int threads = p->threads > 1 && (double)p->m * (double)p->n * (double)p->k > SMALL ? p->threads
                                                                                       : 1;

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic, 1)
    for (int64_t i = 0; i < rows * columns; i++)
        if (!p->lower || i / columns >= i % columns)
            tile(p, i / columns, i % columns);
}
