/* pairwise_distance.c - sums of distances between all pairs of vectors, see pairwise_distance.h.
 *
 *     |a - b|^2 = |a|^2 + |b|^2 - 2 ab
 *
 * with one matrix product for all ab.  This loses digits where a and b are nearly equal, and
 * exactly those pairs matter to pruners.  So the mean of all vectors is subtracted first, which
 * changes no difference, and pairs that are close relative to their norms are recomputed from their
 * elements.
 */
#include "pairwise_distance.h"

#include <math.h>
#include <string.h>

#include "../base/simd.h"

#define PANEL 256 /* vectors per matrix product */
#define NEAR \
    0.02 /* pairs below this fraction of |a|^2 + |b|^2 are recomputed: the product is not
                   * exact enough */

PARE_SIMD static double dot(const float *a, const float *b, int64_t size)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < size; k++)
        sum += (double)a[k] * (double)b[k];
    return sum;
}

PARE_SIMD static double square_distance(const float *a, const float *b, int64_t size)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < size; k++) {
        double d = (double)a[k] - (double)b[k];

        sum += d * d;
    }
    return sum;
}

/* square[i] = length + norm[i] - 2 product[i]; returns the number of pairs to recompute. */
PARE_SIMD static int64_t square_distances(double length, const double *norm, const float *product,
                                          int64_t n, double *square)
{
    int64_t near = 0;

#pragma omp simd reduction(+ : near)
    for (int64_t i = 0; i < n; i++) {
        square[i] = length + norm[i] - 2 * (double)product[i];
        near += square[i] < NEAR * (length + norm[i]);
    }
    return near;
}

/* Adds the root of square[i] to sum[i] for every i; returns the sum of the roots. */
PARE_SIMD static double add_roots(const double *square, int64_t n, double *sum)
{
    double all = 0;

#pragma omp simd reduction(+ : all)
    for (int64_t i = 0; i < n; i++) {
        double d = sqrt(square[i]);

        sum[i] += d;
        all += d;
    }
    return all;
}

/* y = the vectors minus their mean. */
static int subtract_mean(const float *x, int64_t n, int64_t size, float *y,
                         struct pare_arena *scratch)
{
    double *mean = pare_alloc(scratch, (size_t)size, sizeof(*mean));

    if (!mean)
        return -1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < size; k++)
            mean[k] += (double)x[i * size + k];
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < size; k++)
            y[i * size + k] = (float)((double)x[i * size + k] - mean[k] / (double)n);
    return 0;
}

struct work {
    const float *x; /* as given, for pairs to recompute */
    float *y;       /* centered */
    int64_t n, size;
    double *norm, *square, *sum;
    float *product;
};

/* Adds the distances of vector i to all later vectors; `product` holds its dot products with
 * them. */
static void add_distances(const struct work *w, int64_t i, const float *product)
{
    int64_t n = w->n - i - 1, first = i + 1;
    int64_t near = square_distances(w->norm[i], w->norm + first, product, n, w->square);

    for (int64_t j = 0; j < n && near; j++)
        if (w->square[j] < NEAR * (w->norm[i] + w->norm[first + j])) {
            w->square[j] = square_distance(w->x + i * w->size, w->x + (first + j) * w->size,
                                           w->size);
            near--;
        }
    w->sum[i] += add_roots(w->square, n, w->sum + first);
}

static int add_all_panels(const struct work *w)
{
    for (int64_t at = 0; at < w->n; at += PANEL) {
        int64_t rows = w->n - at < PANEL ? w->n - at : PANEL, cols = w->n - at;

        if (pare_product(w->y + at * w->size, rows, w->y + at * w->size, cols, w->size, w->product))
            return -1;
        for (int64_t i = 0; i < rows; i++)
            add_distances(w, at + i, w->product + i * cols + i + 1);
    }
    return 0;
}

int pare_pairwise_distances(const float *x, int64_t n, int64_t size, double *sum,
                            struct pare_arena *scratch, struct pare_err *err)
{
    int64_t rows = n < PANEL ? n : PANEL;
    struct work w = {
        .x = x,
        .n = n,
        .size = size,
        .sum = sum,
        .y = pare_alloc_raw(scratch, (size_t)n * (size_t)size, sizeof(float)),
        .norm = pare_alloc_raw(scratch, (size_t)n, sizeof(double)),
        .square = pare_alloc_raw(scratch, (size_t)n, sizeof(double)),
        .product = pare_alloc_raw(scratch, (size_t)rows * (size_t)n, sizeof(float)),
    };

    memset(sum, 0, (size_t)n * sizeof(*sum));
    if (!w.y || !w.norm || !w.square || !w.product || subtract_mean(x, n, size, w.y, scratch))
        return pare_no_memory(err, "for distances of %lld vectors", (long long)n);
    for (int64_t i = 0; i < n; i++)
        w.norm[i] = dot(w.y + i * size, w.y + i * size, size);
    if (add_all_panels(&w))
        return pare_no_memory(err, "for distances of %lld vectors", (long long)n);
    return 0;
}
