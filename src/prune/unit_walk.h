/* unit_walk.h - iterator over a weight's elements that tells the unit of each. */
#ifndef PARE_PRUNE_UNIT_WALK_H
#define PARE_PRUNE_UNIT_WALK_H

#include <pare/plugin.h>

/* One run of contiguous elements: element at + i, for i < len, belongs to unit unit + i * step.
 * step is 0 (the whole run is in one unit) or 1 (each element is a unit). */
struct pare_unit_walk {
    const struct pare_units *u;
    int64_t at, len, unit;
    int step;
    int outer;                       /* number of axes outside of the runs */
    int64_t index[PARE_MAX_RANK];    /* position along each outer axis, in runs */
    int64_t dim[PARE_MAX_RANK];      /* length of each outer axis, in runs */
    int64_t per_unit[PARE_MAX_RANK]; /* runs per unit along the axis */
    int64_t stride[PARE_MAX_RANK];   /* distance between neighboring units along the axis */
};

/*     for (pare_unit_walk_begin(&w, u); w.len; pare_unit_walk_next(&w)) */
void pare_unit_walk_begin(struct pare_unit_walk *w, const struct pare_units *u);
void pare_unit_walk_next(struct pare_unit_walk *w);

/* out[unit] += sum over the unit of x * y, or of (x * y)^2; x and y have the weight's shape. */
void pare_units_dot(const struct pare_units *u, const float *x, const float *y, float *out);
void pare_units_dot_square(const struct pare_units *u, const float *x, const float *y, float *out);

/* Copies the elements unit by unit: out is (n, elements of a unit). */
int pare_units_gather(const struct pare_units *u, const float *x, float *out,
                      struct pare_arena *scratch, struct pare_err *err);

#endif
