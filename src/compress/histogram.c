/* histogram.c - how often numbers occur, and which range of them is best rounded. */
#include "histogram.h"

#include <math.h>
#include <string.h>

#include "../base/simd.h"

#define HALF (PARE_BINS / 2)
#define BLOCK 512

/* ---- counting -------------------------------------------------------------------------------- */

/* Bins 2i and 2i+1, seen from the middle, become one: the middle stays. */
static void widen(struct pare_histogram *h)
{
    int64_t old[PARE_BINS];

    memcpy(old, h->count, sizeof(old));
    memset(h->count, 0, sizeof(h->count));
    for (int i = 0; i < PARE_BINS; i++)
        h->count[HALF / 2 + i / 2] += old[i];
    h->reach *= 2;
}

/* The bin of each; those that are no numbers have bin PARE_BINS, exact zeros too: after a ReLU they
 * are most, and the divergence is not about them. */
PARE_SIMD static void find_bins(const float *x, int64_t n, float per_bin, int32_t *bin)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * per_bin + HALF;

        v = v < 0 ? 0 : v;
        v = v > PARE_BINS - 1 ? PARE_BINS - 1 : v;
        bin[i] = (x[i] - x[i] == 0) & (x[i] != 0) ? (int32_t)v : PARE_BINS;
    }
}

/* Two tables in turn: neighbours are often in the same bin, and its count need not be waited for.
 * Returns how many were left out. */
static int64_t count_some(const float *x, int64_t n, float per_bin, uint32_t *part)
{
    int64_t out = 0;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        uint32_t none[2] = { 0 };
        int32_t bin[BLOCK];

        find_bins(x + at, m, per_bin, bin);
        for (int64_t i = 0; i < m; i++) {
            uint32_t *to = part + (i & 1) * PARE_BINS + bin[i];

            to = bin[i] < PARE_BINS ? to : &none[i & 1];
            ++*to;
        }
        out += none[0] + none[1];
    }
    return out;
}

void pare_histogram_add(struct pare_histogram *h, const struct pare_hist_batch *b)
{
    double most = (double)(-b->lo > b->hi ? -b->lo : b->hi);
    int threads = b->n > 32768 && b->threads > 1 ? b->threads : 1;
    int64_t zeros = 0;
    float per_bin;

    if (h->reach == 0)
        h->reach = most;
    while (h->reach < most)
        widen(h);
    per_bin = h->reach > 0 ? (float)(HALF / h->reach) : 0;
    if (per_bin > 3e38f) /* next to nothing */
        per_bin = 3e38f;
    memset(b->part, 0, (size_t)threads * 2 * PARE_BINS * sizeof(*b->part));
#pragma omp parallel for num_threads(threads) if (threads > 1) reduction(+ : zeros)
    for (int t = 0; t < threads; t++) {
        int64_t from = b->n * t / threads, to = b->n * (t + 1) / threads;

        zeros += count_some(b->x + from, to - from, per_bin, b->part + (int64_t)t * 2 * PARE_BINS);
    }
    h->zeros += zeros;
    for (int64_t t = 0; t < 2 * threads; t++)
        for (int i = 0; i < PARE_BINS; i++)
            h->count[i] += b->part[t * PARE_BINS + i];
}

static double edge(const struct pare_histogram *h, int bin)
{
    return h->reach * (double)(bin - HALF) / HALF;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void within(const struct pare_histogram *h, double reach, double *lo, double *hi)
{
    *lo = h->lo > -reach ? h->lo : -reach;
    *hi = h->hi < reach ? h->hi : reach;
}

void pare_histogram_percentile(const struct pare_histogram *h, double part, double *lo, double *hi)
{
    int64_t total = h->zeros, cut, below = 0, above = 0;
    int first = 0, last = PARE_BINS - 1;

    for (int i = 0; i < PARE_BINS; i++)
        total += h->count[i];
    cut = (int64_t)((1 - part) * (double)total);
    while (first < HALF && below + h->count[first] <= cut)
        below += h->count[first++];
    while (last >= HALF && above + h->count[last] <= cut)
        above += h->count[last--];
    *lo = edge(h, first);
    *hi = edge(h, last + 1);
    *lo = *lo > h->lo ? *lo : h->lo;
    *hi = *hi < h->hi ? *hi : h->hi;
}

/* The squared error of a bin's middle, for each that was seen. */
static double error_of(const struct pare_histogram *h, const struct pare_quant *q, double reach)
{
    double lo, hi, sum = 0, width = h->reach / HALF;
    float s, z;

    within(h, reach, &lo, &hi);
    pare_quant_fit(q, lo, hi, &s, &z);
    for (int i = 0; i < PARE_BINS; i++) {
        double x = edge(h, i) + width / 2, v = x / (double)s + (double)z;

        if (!h->count[i])
            continue;
        v = v < (double)q->qmin ? (double)q->qmin : v > (double)q->qmax ? (double)q->qmax : v;
        v = (rint(v) - (double)z) * (double)s - x;
        sum += v * v * (double)h->count[i];
    }
    return sum;
}

/* The reach with the least cost: by 1/64 of the largest, then by 1/256 around the best. */
static double search(const struct pare_histogram *h, const struct pare_quant *q,
                     double (*cost)(const struct pare_histogram *, const struct pare_quant *,
                                    double))
{
    double most = -h->lo > h->hi ? -h->lo : h->hi, best = most, least = cost(h, q, most), from;

    for (int i = 2; i < 64; i++) {
        double c = cost(h, q, most * i / 64);

        if (c < least)
            least = c, best = most * i / 64;
    }
    from = best;
    for (int i = -3; i <= 3; i++) {
        double c = cost(h, q, from + most * i / 256);

        if (c < least)
            least = c, best = from + most * i / 256;
    }
    return best;
}

void pare_histogram_mse(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                        double *hi)
{
    within(h, search(h, q, error_of), lo, hi);
}

/* ---- entropy --------------------------------------------------------------------------------- */

static int bin_at(const struct pare_histogram *h, double x)
{
    double i = h->reach > 0 ? floor(x / h->reach * HALF) + HALF : 0;

    return i < 0 ? 0 : i > PARE_BINS ? PARE_BINS : (int)i;
}

/* KL(P || Q) over the bins first..last-1.  P has what was seen, with all beyond the ends in the
 * outermost bins; Q has, for each of the `levels` groups of bins, the mean over the bins of it that
 * are not empty.  What one group takes from another by rounding is left out. */
static double divergence(const struct pare_histogram *h, int first, int last, double levels)
{
    double total = 0, q_total = 0, sum = 0, extra[2] = { 0, 0 };
    int to;

    for (int i = 0; i < PARE_BINS; i++) {
        total += (double)h->count[i];
        extra[0] += i < first ? (double)h->count[i] : 0;
        extra[1] += i >= last ? (double)h->count[i] : 0;
        q_total += i >= first && i < last ? (double)h->count[i] : 0;
    }
    if (!(q_total > 0))
        return INFINITY;
    for (int from = first, level = 1; from < last; from = to, level++) {
        double mass = 0, full = 0;

        to = first + (int)((double)(last - first) * level / levels + 0.5);
        to = to <= from ? from + 1 : to > last || level >= levels ? last : to;
        for (int i = from; i < to; i++) {
            mass += (double)h->count[i];
            full += h->count[i] > 0 || (i == first && extra[0] > 0) ||
                    (i == last - 1 && extra[1] > 0);
        }
        for (int i = from; i < to; i++) {
            double p = (double)h->count[i] + (i == first ? extra[0] : 0) +
                       (i == last - 1 ? extra[1] : 0);

            if (p > 0) /* a group without mass has only what lies beyond the end: hardly likely */
                sum += p / total * log(p / total / ((mass > 0 ? mass / full : 1e-4) / q_total));
        }
    }
    return sum;
}

static double entropy_of(const struct pare_histogram *h, const struct pare_quant *q, double reach)
{
    double levels = (double)(q->qmax - q->qmin) + 1, lo, hi;
    int first, last;

    within(h, reach, &lo, &hi);
    if (q->symmetric) { /* both halves of the integers, though one may be empty */
        lo = -reach;
        hi = reach;
    }
    first = bin_at(h, lo < 0 ? lo : 0);
    last = bin_at(h, hi > 0 ? hi : 0) + 1;
    last = last > PARE_BINS ? PARE_BINS : last;
    if (last - first < levels) /* finer than was counted */
        return INFINITY;
    return divergence(h, first, last, levels);
}

void pare_histogram_entropy(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                            double *hi)
{
    within(h, search(h, q, entropy_of), lo, hi);
}
