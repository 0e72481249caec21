/* round_kquant.c - rounding kquant: scale and least value by weighted least squares, without data.
 *
 * As the k-quants of llama.cpp and ONNX Runtime: the error of a weight x counts rms + |x|.  20
 * candidate steps, from (levels - 1) to (levels + 0.9) per range, give levels l; then the scale and
 * the least value that minimize  sum of (rms + |x|) (scale l + least - x)^2  are closed.  The least
 * value becomes the nearest zero point, and with it the scale is fitted once more.
 */
#include <math.h>

#include "rounding.h"

#define STEPS 20
#define DELTA 0.1

struct sums {
    double w, x, l, l2, xl, x2;
};

static double rms_of(const struct pare_fit *f)
{
    double sum = 0;

    for (int64_t k = 0; k < f->n; k++)
        sum += f->w[k] * f->w[k];
    return sqrt(sum / (double)f->n);
}

/* Weighted sums over the levels of a candidate; least 0 and zero the middle if symmetric. */
static struct sums sums_of(const struct pare_fit *f, double rms, double by, double least,
                           double zero)
{
    const struct pare_round_grid *g = f->grid;
    struct sums s = { 0 };

    for (int64_t k = 0; k < f->n; k++) {
        double x = f->w[k], w = rms + fabs(x), l = rint((x - least) * by) + zero;

        l = l < (double)g->qmin ? (double)g->qmin : l > (double)g->qmax ? (double)g->qmax : l;
        l -= zero;
        s.w += w;
        s.x += w * x;
        s.x2 += w * x * x;
        s.l += w * l;
        s.l2 += w * l * l;
        s.xl += w * x * l;
    }
    return s;
}

/* The error of  scale l + least. */
static double error_of(const struct sums *s, double scale, double least)
{
    return s->x2 + scale * scale * s->l2 + least * least * s->w +
           2 * (scale * least * s->l - scale * s->xl - least * s->x);
}

/* The weighted error of a scale and an integer zero point with the nearest levels. */
static double error_on_grid(const struct pare_fit *f, double rms, double scale, double zero)
{
    double sum = 0;

    for (int64_t k = 0; k < f->n; k++) {
        double e = pare_grid_value(f->grid, f->w[k], scale, zero) - f->w[k];

        sum += (rms + fabs(f->w[k])) * e * e;
    }
    return sum;
}

/* Takes the scale and zero point if they are better than what there is. */
static void offer(const struct pare_fit *f, double s, double z, float *scale, float *zero)
{
    double rms = rms_of(f);
    float to = (float)s;

    if (!(to > 0) || !isfinite(to) ||
        !(error_on_grid(f, rms, (double)to, z) <
          error_on_grid(f, rms, (double)*scale, (double)*zero)))
        return;
    *scale = to;
    *zero = (float)z;
}

static void fit(const struct pare_fit *f, float *scale, float *zero)
{
    const struct pare_round_grid *g = f->grid;
    double lo, hi, rms = rms_of(f), levels = (double)(g->qmax - g->qmin), best, base;
    double range, s, z;

    pare_row_range(f->w, f->n, &lo, &hi);
    pare_grid_fit(g, lo, hi, scale, zero);
    range = g->symmetric ? levels * (double)*scale : hi - lo;
    if (!(rms > 0) || !(range > 0) || !isfinite(range))
        return;
    s = range / levels;
    base = g->symmetric ? 0 : lo;
    z = g->symmetric ? (double)*zero : (double)g->qmin;
    best = INFINITY;
    for (int i = 0; i < STEPS; i++) {
        struct sums m = sums_of(f, rms, (levels - 1 + DELTA * i) / range, g->symmetric ? 0 : lo, z);
        double d = m.w * m.l2 - m.l * m.l;
        double to = g->symmetric ? m.xl / m.l2 : (m.w * m.xl - m.x * m.l) / d;
        double least = g->symmetric ? 0 : (m.l2 * m.x - m.l * m.xl) / d,
               e = error_of(&m, to, least);

        if (!(to > 0) || !(e < best))
            continue;
        best = e;
        s = to;
        base = least;
    }
    if (!g->symmetric) {
        z = rint((double)g->qmin - base / s);
        z = z < (double)g->qmin ? (double)g->qmin : z > (double)g->qmax ? (double)g->qmax : z;
    }
    offer(f, s, z, scale, zero);
    /* The zero point was rounded: fit the scale again. */
    {
        struct sums m = sums_of(f, rms, 1 / s, 0, z);

        offer(f, m.xl / m.l2, z, scale, zero);
    }
}

const struct pare_rounding_method pare_rounding_kquant = {
    .name = "kquant",
    .doc = "Scales and zero points by weighted least squares over 20 candidates, as the k-quants "
           "of ONNX Runtime; no data.",
    .fit = fit,
};
