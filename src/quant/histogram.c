/* histogram.c - histograms of activations, and the best quantization range from a histogram. */
#include "histogram.h"

#include <math.h>
#include <string.h>

#include "../base/simd.h"

enum { HALF = PARE_BINS / 2 };
#define BLOCK 512
#define ZEROS 16 /* bins of exact zeros */

/* ---- counting -------------------------------------------------------------------------------- */

/* Doubles the reach: bins 2i and 2i+1, counted from the middle, become one. */
static void widen(struct pare_histogram *h)
{
    int64_t old[PARE_BINS];

    memcpy(old, h->count, sizeof(old));
    memset(h->count, 0, sizeof(h->count));
    for (int i = 0; i < PARE_BINS; i++)
        h->count[HALF / 2 + i / 2] += old[i];
    h->reach *= 2;
}

/* The bin of each value.  Exact zeros, NaN and infinities get one of the bins from PARE_BINS on:
 * after a ReLU most values are zeros, and the divergence ignores them.  These bins rotate, so that
 * no increment waits for the one before. */
PARE_SIMD static void find_bins(const float *x, int64_t n, float per_bin, int32_t *bin)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * per_bin + HALF;

        v = v < 0 ? 0 : v;
        v = v > PARE_BINS - 1 ? PARE_BINS - 1 : v;
        bin[i] = ((x[i] - x[i] == 0) & (x[i] != 0)) ? (int32_t)v
                                                    : PARE_BINS + ((int32_t)i & (ZEROS - 1));
    }
}

/* Two alternating tables: neighboring values are often in the same bin, and an increment need not
 * wait for the last one.  Everything is counted, as a branch would be mispredicted half of the time
 * after a ReLU. */
static void count_range(const float *x, int64_t n, float per_bin, uint32_t *part)
{
    uint32_t *other = part + PARE_HIST_TABLE;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK, i = 0;
        int32_t bin[BLOCK];

        find_bins(x + at, m, per_bin, bin);
        for (; i + 4 <= m; i += 4) {
            part[bin[i]]++;
            other[bin[i + 1]]++;
            part[bin[i + 2]]++;
            other[bin[i + 3]]++;
        }
        for (; i < m; i++)
            part[bin[i]]++;
    }
}

void pare_histogram_add(struct pare_histogram *h, const struct pare_hist_batch *b)
{
    double most = (double)(-b->lo > b->hi ? -b->lo : b->hi);
    int threads = b->n > 32768 && b->threads > 1 ? b->threads : 1;
    float per_bin;

    if (h->reach == 0)
        h->reach = most;
    while (h->reach < most)
        widen(h);
    per_bin = h->reach > 0 ? (float)(HALF / h->reach) : 0;
    if (per_bin > 3e38f) /* reach is close to 0 */
        per_bin = 3e38f;
    memset(b->part, 0, (size_t)threads * 2 * PARE_HIST_TABLE * sizeof(*b->part));
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        int64_t from = b->n * t / threads, to = b->n * (t + 1) / threads;

        count_range(b->x + from, to - from, per_bin, b->part + (int64_t)t * 2 * PARE_HIST_TABLE);
    }
    for (int64_t t = 0; t < 2 * threads; t++) {
        for (int i = 0; i < PARE_BINS; i++)
            h->count[i] += b->part[t * PARE_HIST_TABLE + i];
        for (int i = 0; i < ZEROS; i++)
            h->zeros += b->part[t * PARE_HIST_TABLE + PARE_BINS + i];
    }
}

static double bin_edge(const struct pare_histogram *h, int bin)
{
    return h->reach * (double)(bin - HALF) / HALF;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void clip_to_reach(const struct pare_histogram *h, double reach, double *lo, double *hi)
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
    *lo = bin_edge(h, first);
    *hi = bin_edge(h, last + 1);
    *lo = *lo > h->lo ? *lo : h->lo;
    *hi = *hi < h->hi ? *hi : h->hi;
}

struct sums;

/* The cost of a range with this reach; `s` is NULL if the cost does not need it. */
typedef double cost_fn(const struct pare_histogram *h, const struct pare_quant *q,
                       const struct sums *s, double reach);

/* The squared error of quantizing the bins' centers, weighted by count. */
static double squared_error(const struct pare_histogram *h, const struct pare_quant *q,
                            const struct sums *sums, double reach)
{
    double lo, hi, sum = 0, width = h->reach / HALF;
    float s, z;

    (void)sums;
    clip_to_reach(h, reach, &lo, &hi);
    pare_quant_fit(q, lo, hi, &s, &z);
    for (int i = 0; i < PARE_BINS; i++) {
        double x = bin_edge(h, i) + width / 2, v = x / (double)s + (double)z;

        if (!h->count[i])
            continue;
        v = v < (double)q->qmin ? (double)q->qmin : v > (double)q->qmax ? (double)q->qmax : v;
        v = (rint(v) - (double)z) * (double)s - x;
        sum += v * v * (double)h->count[i];
    }
    return sum;
}

/* The reach with the least cost: steps of 1/64 of the largest, then of 1/256 around the best. */
static double search_reach(const struct pare_histogram *h, const struct pare_quant *q,
                           const struct sums *s, cost_fn *cost)
{
    double most = -h->lo > h->hi ? -h->lo : h->hi, best = most, least = cost(h, q, s, most), from;

    for (int i = 2; i < 64; i++) {
        double c = cost(h, q, s, most * i / 64);

        if (c < least)
            least = c, best = most * i / 64;
    }
    from = best;
    for (int i = -3; i <= 3; i++) {
        double c = cost(h, q, s, from + most * i / 256);

        if (c < least)
            least = c, best = from + most * i / 256;
    }
    return best;
}

void pare_histogram_mse(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                        double *hi)
{
    clip_to_reach(h, search_reach(h, q, NULL, squared_error), lo, hi);
}

/* ---- entropy --------------------------------------------------------------------------------- */

static int bin_at(const struct pare_histogram *h, double x)
{
    double i = h->reach > 0 ? floor(x / h->reach * HALF) + HALF : 0;

    return i < 0 ? 0 : i > PARE_BINS ? PARE_BINS : (int)i;
}

/* Prefix sums over the bins: counts c, c log c, and non-empty bins. */
struct sums {
    double count[PARE_BINS + 1], log[PARE_BINS + 1];
    int full[PARE_BINS + 1];
};

static double log_times(double c)
{
    return c > 0 ? c * log(c) : 0;
}

static void prefix_sums(const struct pare_histogram *h, struct sums *s)
{
    s->count[0] = s->log[0] = 0;
    s->full[0] = 0;
    for (int i = 0; i < PARE_BINS; i++) {
        s->count[i + 1] = s->count[i] + (double)h->count[i];
        s->log[i + 1] = s->log[i] + log_times((double)h->count[i]);
        s->full[i + 1] = s->full[i] + (h->count[i] > 0);
    }
}

/* KL(P || Q) over the bins first..last-1.  P is the histogram, with everything outside added to the
 * outermost bins; Q has, for each of the `levels` groups of bins, the mean over its non-empty bins.
 * Values that rounding moves between groups are neglected.  With n the number of all values and m
 * of those inside,
 *     KL = (sum p log p - sum over groups of P log Q) / n + log m - log n. */
static double divergence(const struct pare_histogram *h, const struct sums *s, int first, int last,
                         double levels)
{
    double total = s->count[PARE_BINS], inside = s->count[last] - s->count[first];
    double below = s->count[first], above = total - s->count[last];
    double ends[2] = { (double)h->count[first], (double)h->count[last - 1] }, sum;
    int to;

    if (!(inside > 0))
        return INFINITY;
    if (last - first == 1) /* P and Q are the same one bin */
        return 0;
    sum = s->log[last] - s->log[first] - log_times(ends[0]) - log_times(ends[1]) +
          log_times(ends[0] + below) + log_times(ends[1] + above);
    for (int from = first, level = 1; from < last; from = to, level++) {
        double mass, full, seen;

        to = first + (int)((double)(last - first) * level / levels + 0.5);
        to = to <= from ? from + 1 : to > last || level >= levels ? last : to;
        mass = s->count[to] - s->count[from];
        full = s->full[to] - s->full[from] + (from == first && ends[0] == 0 && below > 0) +
               (to == last && ends[1] == 0 && above > 0);
        seen = mass + (from == first ? below : 0) + (to == last ? above : 0);
        if (seen > 0) /* a group without mass holds only values from outside: very unlikely */
            sum -= seen * log(mass > 0 ? mass / full : 1e-4);
    }
    return sum / total + log(inside) - log(total);
}

static double entropy_cost(const struct pare_histogram *h, const struct pare_quant *q,
                           const struct sums *s, double reach)
{
    double levels = (double)(q->qmax - q->qmin) + 1, lo, hi;
    int first, last;

    clip_to_reach(h, reach, &lo, &hi);
    if (q->symmetric) { /* both halves of the integer range, even if one is empty */
        lo = -reach;
        hi = reach;
    }
    first = bin_at(h, lo < 0 ? lo : 0);
    last = bin_at(h, hi > 0 ? hi : 0) + 1;
    last = last > PARE_BINS ? PARE_BINS : last;
    if (last - first < levels) /* finer than the histogram */
        return INFINITY;
    return divergence(h, s, first, last, levels);
}

void pare_histogram_entropy(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                            double *hi)
{
    struct sums s;

    prefix_sums(h, &s);
    clip_to_reach(h, search_reach(h, q, &s, entropy_cost), lo, hi);
}
