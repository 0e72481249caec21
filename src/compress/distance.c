/* distance.c - how far vectors are from all others, see distance.h.
 *
 * The usual way, |a|^2 + |b|^2 - 2 ab with one matrix product, loses all digits when a and b are
 * nearly equal, and just these are what pruners look for.  So differences are taken, in tiles that
 * work like a product's: ROWS vectors against COLS others that lie transposed, a few hundred
 * elements at a time, sums in registers.  A difference costs an operation more than a product, but
 * half of the tiles are enough.
 */
#include "distance.h"

#include <math.h>
#include <string.h>

#include <omp.h>

#include "../base/simd.h"

#define ROWS 6
#define COLS 16
#define DEPTH 256

/* Loops over arrays would do, but no compiler at hand keeps those in registers. */
typedef float lanes __attribute__((vector_size(COLS * sizeof(float))));

/* square[r][c] += sum over k < depth of (a[r][k] - b[k][c])^2, a's rows `size` apart. */
PARE_SIMD static void tile(const float *restrict a, int64_t size, const float *restrict b,
                           int64_t depth, double square[ROWS][COLS])
{
    lanes sum[ROWS] = { { 0 } }, d[ROWS], y;

    for (int64_t k = 0; k < depth; k++) {
        memcpy(&y, b + k * COLS, sizeof(y));
        for (int r = 0; r < ROWS; r++) {
            d[r] = y - a[r * size + k];
            sum[r] += d[r] * d[r];
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            square[r][c] += (double)sum[r][c];
}

/* (COLS, size) to blocks of (DEPTH, COLS); rows past the end are 0. */
static void transpose(const float *x, int64_t rows, int64_t size, float *out)
{
    memset(out, 0, (size_t)(size * COLS) * sizeof(*out));
    for (int64_t c = 0; c < rows; c++)
        for (int64_t k = 0; k < size; k++)
            out[k * COLS + c] = x[c * size + k];
}

/* The columns col .. col + COLS against all rows up to there. */
static void column(const float *x, int64_t n, int64_t size, int64_t col, float *b, double *sum)
{
    int64_t cols = n - col < COLS ? n - col : COLS;

    transpose(x + col * size, cols, size, b);
    for (int64_t row = 0; row < col + cols; row += ROWS) {
        int64_t first = row + ROWS <= n ? row : n - ROWS;
        double square[ROWS][COLS] = { { 0 } };

        for (int64_t k = 0; k < size; k += DEPTH)
            tile(x + first * size + k, size, b + k * COLS, size - k < DEPTH ? size - k : DEPTH,
                 square);
        for (int64_t r = row - first; r < ROWS; r++)
            for (int64_t c = 0; c < cols && first + r < col + cols; c++)
                if (first + r < col + c) {
                    double d = sqrt(square[r][c]);

                    sum[first + r] += d;
                    sum[col + c] += d;
                }
    }
}

/* Fewer than ROWS vectors. */
static void few(const float *x, int64_t n, int64_t size, double *sum)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            double square = 0, d;

            for (int64_t k = 0; k < size; k++) {
                d = (double)x[i * size + k] - (double)x[j * size + k];
                square += d * d;
            }
            d = sqrt(square);
            sum[i] += d;
            sum[j] += d;
        }
}

/* Threads take columns in turn and add to sums of their own, which are added in their order. */
int pare_distances(const float *x, int64_t n, int64_t size, int threads, double *sum,
                   struct pare_arena *scratch, struct pare_err *err)
{
    int64_t columns = (n + COLS - 1) / COLS;
    int t = threads > 0 ? threads : omp_get_max_threads();
    double *part;
    float *b;

    t = (int64_t)t > columns ? (int)columns : t;
    memset(sum, 0, (size_t)n * sizeof(*sum));
    if (n < ROWS) {
        few(x, n, size, sum);
        return 0;
    }
    part = pare_alloc(scratch, (size_t)t * (size_t)n, sizeof(*part));
    b = pare_alloc_raw(scratch, (size_t)t * (size_t)size, COLS * sizeof(*b));
    if (!part || !b)
        return pare_fail(err, PARE_ENOMEM, "no memory for distances of %lld vectors", (long long)n);
#pragma omp parallel for num_threads(t) schedule(static, 1)
    for (int who = 0; who < t; who++)
        for (int64_t c = who; c < columns; c += t)
            column(x, n, size, c * COLS, b + who * size * COLS, part + who * n);
    for (int who = 0; who < t; who++)
        for (int64_t i = 0; i < n; i++)
            sum[i] += part[who * n + i];
    return 0;
}
