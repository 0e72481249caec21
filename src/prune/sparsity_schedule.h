/* sparsity_schedule.h - how fast sparsity grows: the formulas of schedules, without anything around them. */
#ifndef PARE_PRUNE_SPARSITY_SCHEDULE_H
#define PARE_PRUNE_SPARSITY_SCHEDULE_H

#include <stdint.h>

/* From how much of the way is done to how much of the sparsity is reached; both in [0, 1]. */
typedef double pare_curve(double done);
double pare_sparsity_linear(double done); /* done */
double pare_sparsity_cubic(double done);  /* 1 - (1 - done)^3: fast at first, see prune_agp.c */

/* The goal at time i of 0..n: goal * curve(i / n); before 0 nothing, after n the goal. */
double pare_sparsity_times(pare_curve *curve, double goal, int64_t i, int64_t n);

/* By epochs: from `from` at epoch start to `to`, in a step every so many epochs (every > 0). */
struct pare_epochs {
    double from, to;
    int64_t start, end, every;
};

/* How many epochs the way takes; at least 1, or there is none: (end - start - 1) cut down to a
 * multiple of `every`, so that the last step falls before `end`. */
int64_t pare_sparsity_span(const struct pare_epochs *p);

/* The goal at an epoch: `from` before start, `to` from end on; and always `to` when there is no way
 * from `from` up to `to`. */
double pare_sparsity_epochs(const struct pare_epochs *p, pare_curve *curve, int64_t epoch);
int pare_sparsity_due(const struct pare_epochs *p,
                      int64_t epoch); /* is there a step at this one? */

/* 1 - (1 - goal)^(i / n): each of n rounds removes the same part of what is left. */
double pare_sparsity_rounds(double goal, int64_t i, int64_t n);

/* 0 up to step `warm`, 1 from step `cool` on, the cubic curve between. */
double pare_sparsity_window(int64_t step, int64_t warm, int64_t cool);

#endif
