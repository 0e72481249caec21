/* round_grid.h - levels and scales of a row of weights. */
#ifndef PARE_QUANT_ROUND_GRID_H
#define PARE_QUANT_ROUND_GRID_H

#include <stdbool.h>
#include <stdint.h>

/* Integers and scales of a row: `blocks` scales of `size` columns each. */
struct pare_round_grid {
    int64_t qmin, qmax, middle; /* middle: the zero point if symmetric */
    bool symmetric;
    int64_t blocks, size;
    bool given; /* scale and zero are given; else they are searched, which needs one block */
};

/* The nearest level, half to even, as rounding weights without data does. */
static inline int64_t pare_nearest_level(const struct pare_round_grid *g, float w, float scale,
                                         float zero)
{
    float lo = (float)g->qmin - zero, hi = (float)g->qmax - zero, v = w / scale;

    v = v >= lo ? v : lo; /* also for NaN */
    v = v < hi ? v : hi;
    return (int64_t)(v + 12582912.0f - 12582912.0f + zero);
}

/* The least and the largest weight of a row, 0 included. */
void pare_row_range(const double *w, int64_t k, double *lo, double *hi);

/* Scale and zero point of a range; those with the least sum of |rounding error|^2.4 of a row. */
void pare_grid_fit(const struct pare_round_grid *g, double lo, double hi, float *scale,
                   float *zero);
void pare_grid_fit_norm(const struct pare_round_grid *g, const double *w, int64_t k, float *scale,
                        float *zero);

/* The nearest level, as a double; the weight that it stands for. */
double pare_grid_level(const struct pare_round_grid *g, double w, double scale, double zero);
double pare_grid_value(const struct pare_round_grid *g, double w, double scale, double zero);

#endif
