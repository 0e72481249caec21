/* round_nearest.c - rounding nearest: each weight to the nearest level of the whole range. */
#include "rounding.h"

static void fit(const struct pare_fit *f, float *scale, float *zero)
{
    double lo, hi;

    pare_row_range(f->w, f->n, &lo, &hi);
    pare_grid_fit(f->grid, lo, hi, scale, zero);
}

const struct pare_rounding_method pare_rounding_nearest = {
    .name = "nearest",
    .doc = "Round each weight to the nearest level; scales cover the whole range.",
    .fit = fit,
};
