/* round_grid.c - levels and scales of a row of weights. */
#include "round_grid.h"

#include <math.h>

#include "../channel_rows.h"

#define NORM_TRIES 80 /* scales that are tried by the norm of the rounding error */
#define NORM 2.4

void pare_grid_fit(const struct pare_round_grid *g, double lo, double hi, float *scale, float *zero)
{
    double up = (double)(g->qmax - g->middle), down = (double)(g->middle - g->qmin), s;

    lo = lo < 0 ? lo : 0;
    hi = hi > 0 ? hi : 0;
    if (g->symmetric) {
        *scale = pare_scale_limit((float)(hi / up > -lo / down ? hi / up : -lo / down));
        *zero = (float)g->middle;
        return;
    }
    *scale = pare_scale_limit((float)((hi - lo) / (double)(g->qmax - g->qmin)));
    s = rint((double)g->qmin - lo / (double)*scale);
    s = s < (double)g->qmin ? (double)g->qmin : s;
    *zero = (float)(s > (double)g->qmax ? (double)g->qmax : s);
}

void pare_row_range(const double *w, int64_t k, double *lo, double *hi)
{
    *lo = *hi = 0;
    for (int64_t j = 0; j < k; j++) {
        *lo = w[j] < *lo ? w[j] : *lo;
        *hi = w[j] > *hi ? w[j] : *hi;
    }
}

double pare_grid_level(const struct pare_round_grid *g, double w, double scale, double zero)
{
    double v = rint(w / scale) + zero, lo = (double)g->qmin, hi = (double)g->qmax;

    v = v >= lo ? v : lo;
    return v < hi ? v : hi;
}

double pare_grid_value(const struct pare_round_grid *g, double w, double scale, double zero)
{
    return (pare_grid_level(g, w, scale, zero) - zero) * scale;
}

void pare_grid_fit_norm(const struct pare_round_grid *g, const double *w, int64_t k, float *scale,
                        float *zero)
{
    double lo, hi, best = -1;

    pare_row_range(w, k, &lo, &hi);
    for (int i = 0; i < NORM_TRIES; i++) {
        double part = 1 - (double)i / 100, sum = 0;
        float s, z;

        pare_grid_fit(g, part * lo, part * hi, &s, &z);
        for (int64_t j = 0; j < k && (best < 0 || sum < best); j++)
            sum += pow(fabs(pare_grid_value(g, w[j], (double)s, (double)z) - w[j]), NORM);
        if (best >= 0 && !(sum < best))
            continue;
        best = sum;
        *scale = s;
        *zero = z;
    }
}
