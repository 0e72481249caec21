/* sparsity_schedule.h - formulas of sparsity schedules: linear, cubic, by epoch, by round, by
 * step. */
#ifndef PARE_PRUNE_SPARSITY_SCHEDULE_H
#define PARE_PRUNE_SPARSITY_SCHEDULE_H

#include <stdint.h>

/* Maps the fraction of time done to the fraction of the sparsity reached; both in [0, 1]. */
typedef double pare_curve(double done);
double pare_sparsity_linear(double done); /* done */
double pare_sparsity_cubic(double done);  /* 1 - (1 - done)^3: fast at first, see prune_agp.c */

/* The sparsity at time i of 0..n: goal * curve(i / n); 0 before 0, goal after n. */
double pare_sparsity_times(pare_curve *curve, double goal, int64_t i, int64_t n);

/* Schedule by epochs: sparsity rises from `from` at epoch `start` to `to` before epoch `end`, in
 * one step every `every` epochs (every > 0). */
struct pare_epochs {
    double from, to;
    int64_t start, end, every;
};

/* Number of epochs the rise takes: (end - start - 1) rounded down to a multiple of `every`, so that
 * the last step falls before `end`.  0: there is no rise. */
int64_t pare_sparsity_span(const struct pare_epochs *p);

/* The sparsity at an epoch: `from` before start, `to` from end on; always `to` if the span is 0 or
 * from >= to. */
double pare_sparsity_epochs(const struct pare_epochs *p, pare_curve *curve, int64_t epoch);
int pare_sparsity_due(const struct pare_epochs *p,
                      int64_t epoch); /* is there a step at this epoch? */

/* 1 - (1 - goal)^(i / n): each of n rounds removes the same fraction of the remaining units. */
double pare_sparsity_rounds(double goal, int64_t i, int64_t n);

/* The fraction to remove of what is left, so that t of all is gone, if c is gone already:
 * (t - c) / (1 - c), at least 0. */
double pare_sparsity_of_rest(double t, double c);

/* 0 up to step `warm`, 1 from step `cool` on, the cubic curve in between. */
double pare_sparsity_window(int64_t step, int64_t warm, int64_t cool);

#endif
