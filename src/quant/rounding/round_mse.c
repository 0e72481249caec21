/* round_mse.c - rounding mse: the range of each scale clipped to the least squared error. */
#include "rounding.h"

#define TRIES 36
#define PART 0.02 /* fraction by which the range shrinks from one candidate to the next */

static void fit(const struct pare_fit *f, float *scale, float *zero)
{
    double lo, hi, least = -1;

    pare_row_range(f->w, f->n, &lo, &hi);
    for (int i = 0; i < TRIES; i++) {
        double part = 1 - PART * i, sum = 0;
        float s, z;

        pare_grid_fit(f->grid, part * lo, part * hi, &s, &z);
        for (int64_t k = 0; k < f->n && (least < 0 || sum < least); k++) {
            double e = pare_grid_value(f->grid, f->w[k], (double)s, (double)z) - f->w[k];

            sum += e * e;
        }
        if (least >= 0 && !(sum < least))
            continue;
        least = sum;
        *scale = s;
        *zero = z;
    }
}

const struct pare_rounding_method pare_rounding_mse = {
    .name = "mse",
    .doc = "Clip the range of each scale to the least squared error of the weights; no data.",
    .fit = fit,
};
