/* round_hqq.c - rounding hqq: half-quadratic quantization (Badri, Shaji 2023), without data.
 *
 * Minimizes |W - Q|_p, p = 0.7, which outliers influence less than squares.  With Q = s (q - z):
 *     E = shrink(W - Q),  shrink(x) = sign(x) max(|x| - |x|^(p - 1) / beta, 0)
 *     z = mean(q - (W - E) / s),    or with a fixed z:  s = sum((q - z) (W - E)) / sum((q - z)^2)
 * 20 times, beta growing by 1 %, while the mean of |W - Q| falls.  The zero point of an ONNX file
 * is an integer, so the best z is rounded; the result is kept where it is better than the start.
 */
#include <math.h>

#include "rounding.h"

#define ROUNDS 20
#define NORM 0.7
#define BETA 10.0
#define KAPPA 1.01

static double shrink(double x, double beta)
{
    double size = fabs(x), less = size > 0 ? size - pow(size, NORM - 1) / beta : 0;

    return less > 0 ? copysign(less, x) : 0;
}

/* With a zero point that is not an integer. */
static double level(const struct pare_round_grid *g, double w, double s, double z)
{
    double v = rint(w / s + z);

    v = v >= (double)g->qmin ? v : (double)g->qmin;
    return v < (double)g->qmax ? v : (double)g->qmax;
}

/* The mean of |W - Q|^p. */
static double distance(const struct pare_fit *f, double s, double z, double p)
{
    double sum = 0;

    for (int64_t k = 0; k < f->n; k++)
        sum += pow(fabs((level(f->grid, f->w[k], s, z) - z) * s - f->w[k]), p);
    return sum / (double)f->n;
}

/* The next zero point, or the next scale if the grid is symmetric. */
static void improve(const struct pare_fit *f, double beta, double *s, double *z)
{
    double sum = 0, product = 0, square = 0;

    for (int64_t k = 0; k < f->n; k++) {
        double q = level(f->grid, f->w[k], *s, *z);
        double goal = f->w[k] - shrink(f->w[k] - (q - *z) * *s, beta);

        sum += q - goal / *s;
        product += (q - *z) * goal;
        square += (q - *z) * (q - *z);
    }
    if (!f->grid->symmetric)
        *z = sum / (double)f->n;
    else if (product > 0)
        *s = product / square;
}

static void fit(const struct pare_fit *f, float *scale, float *zero)
{
    const struct pare_round_grid *g = f->grid;
    double lo, hi, s, z, best[2], least, beta = BETA;
    float to;

    pare_row_range(f->w, f->n, &lo, &hi);
    pare_grid_fit(g, lo, hi, scale, zero);
    best[0] = s = (double)*scale;
    best[1] = z = (double)*zero;
    least = distance(f, s, z, 1);
    for (int i = 0; i < ROUNDS; i++, beta *= KAPPA) {
        double now;

        improve(f, beta, &s, &z);
        now = distance(f, s, z, 1);
        if (!(now < least))
            break;
        least = now;
        best[0] = s;
        best[1] = z;
    }
    z = rint(best[1]);
    z = z < (double)g->qmin ? (double)g->qmin : z > (double)g->qmax ? (double)g->qmax : z;
    to = (float)best[0];
    if (!(to > 0) ||
        !(distance(f, (double)to, z, NORM) < distance(f, (double)*scale, (double)*zero, NORM)))
        return;
    *scale = to;
    *zero = (float)z;
}

const struct pare_rounding_method pare_rounding_hqq = {
    .name = "hqq",
    .doc = "Zero points, or symmetric scales, with the least 0.7-norm of the weights' error, "
           "half-quadratic; no data.",
    .fit = fit,
};
