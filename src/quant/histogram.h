/* histogram.h - how often numbers occur, from batch after batch, in memory that does not grow; and
 * which range of them is best rounded.
 *
 * PARE_BINS bins of one width cover [-reach, reach).  When a batch goes beyond it, the reach is
 * doubled and bins are added up in pairs: nothing is lost but the resolution.
 */
#ifndef PARE_QUANT_HISTOGRAM_H
#define PARE_QUANT_HISTOGRAM_H

#include <pare/plugin.h>

#define PARE_BINS 4096
#define PARE_HIST_TABLE (PARE_BINS + 16) /* the last are for what is left out */

struct pare_histogram {
    double reach;  /* 0: nothing but 0 was seen */
    double lo, hi; /* the smallest and the largest, as the caller has them */
    int64_t count[PARE_BINS], zeros;
};

/* Add n numbers that lie within [lo, hi]; NaN and infinities are left out.  `part` is room for
 * `threads` times PARE_HIST_TABLE * 2 counts. */
struct pare_hist_batch {
    const float *x;
    int64_t n;
    float lo, hi;
    int threads;
    uint32_t *part;
};
void pare_histogram_add(struct pare_histogram *h, const struct pare_hist_batch *b);

/* A range [lo, hi] of what was seen: without the outermost numbers, so that `part` of them stay on
 * each side; with the least squared error when rounded as q says; with the least Kullback-Leibler
 * divergence between the numbers and the rounded ones. */
void pare_histogram_percentile(const struct pare_histogram *h, double part, double *lo, double *hi);
void pare_histogram_mse(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                        double *hi);
void pare_histogram_entropy(const struct pare_histogram *h, const struct pare_quant *q, double *lo,
                            double *hi);

#endif
