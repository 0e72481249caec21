/* unit_walk.h - go through a weight's elements and know to which unit each belongs. */
#ifndef PARE_PRUNE_UNIT_WALK_H
#define PARE_PRUNE_UNIT_WALK_H

#include <pare/plugin.h>

/* A stretch of elements that lie one behind the other: element at + i, for i < len, belongs to unit
 * unit + i * step.  step is 0 (all in one unit) or 1 (each is a unit). */
struct pare_unit_walk {
    const struct pare_units *u;
    int64_t at, len, unit;
    int step;
    int outer;                       /* axes that the stretches do not cover */
    int64_t index[PARE_MAX_RANK];    /* ... and where we are on them */
    int64_t dim[PARE_MAX_RANK];      /* ... and how far they go, in stretches */
    int64_t per_unit[PARE_MAX_RANK]; /* stretches of a unit along the axis */
    int64_t stride[PARE_MAX_RANK];   /* from a unit to the next along the axis */
};

/*     for (pare_unit_walk_begin(&w, u); w.len; pare_unit_walk_next(&w)) */
void pare_unit_walk_begin(struct pare_unit_walk *w, const struct pare_units *u);
void pare_unit_walk_next(struct pare_unit_walk *w);

/* out[unit] += sum over the unit of x * y, or of (x * y)^2; x and y have the weight's shape. */
void pare_units_dot(const struct pare_units *u, const float *x, const float *y, float *out);
void pare_units_dot_square(const struct pare_units *u, const float *x, const float *y, float *out);

/* Put the units' elements one unit behind the other: out is (n, elements of a unit). */
int pare_units_gather(const struct pare_units *u, const float *x, float *out,
                      struct pare_arena *scratch, struct pare_err *err);

#endif
