/* histogram.h - histograms of activations over many batches in constant memory, and the best
 * quantization range from a histogram.
 *
 * PARE_BINS bins of equal width cover [-reach, reach).  If a batch exceeds it, the reach is doubled
 * and bins are merged in pairs: only resolution is lost.
 */
#ifndef PARE_QUANT_HISTOGRAM_H
#define PARE_QUANT_HISTOGRAM_H

#include <pare/plugin.h>

#define PARE_BINS 4096
#define PARE_HIST_TABLE (PARE_BINS + 16) /* the last bins are for values that are left out */

struct pare_histogram {
    double reach;  /* 0: only zeros seen */
    double lo, hi; /* minimum and maximum, set by the caller */
    int64_t count[PARE_BINS], zeros;
};

/* A batch of n values within [lo, hi]; NaN and infinities are left out.  `part` has room for
 * `threads` times PARE_HIST_TABLE * 2 counts. */
struct pare_hist_batch {
    const float *x;
    int64_t n;
    float lo, hi;
    int threads;
    uint32_t *part;
};
void pare_histogram_add(struct pare_histogram *h, const struct pare_hist_batch *b);

/* Three ways to choose a range [lo, hi]: percentile leaves out outliers and keeps the fraction
 * `part` on each side; mse minimizes the squared error of quantization by q; entropy minimizes the
 * Kullback-Leibler divergence between the values and the quantized values. */
void pare_histogram_percentile(const struct pare_histogram *h, double part, double *lo, double *hi);
void pare_histogram_mse(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                        double *hi);
void pare_histogram_entropy(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                            double *hi);

#endif
