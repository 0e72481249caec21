/* separate_costs.h - errors and costs of each variable alone, the others held, and a knapsack over
 * them: what solvers assume that do not see pairs of variables. */
#ifndef PARE_SEARCH_SEPARATE_COSTS_H
#define PARE_SEARCH_SEPARATE_COSTS_H

#include "alloc_state.h"

struct pare_separate {
    int *first;    /* (n_vars + 1): choice c of variable v is row first[v] + c */
    double *error; /* (rows) change of the error with the others dense; infinity: forbidden */
    double *cost;  /* (rows) change of the cost of one budget with the others held */
};

int pare_separate_init(const struct pare_alloc_state *s, struct pare_separate *t,
                       struct pare_err *err);

/* Costs of budget b around `center`, which is restored before return. */
void pare_separate_costs(const struct pare_alloc_state *s, struct pare_separate *t, int *center,
                         int b);

/* The least sum of errors with a sum of costs of at most `budget`, exact to a bucket: costs are
 * rounded up to multiples of 1 / n_buckets of the range.  Without such choices, each variable takes
 * its cheapest. */
int pare_separate_knapsack(const struct pare_alloc_state *s, const struct pare_separate *t,
                           double budget, int n_buckets, int *choice, struct pare_err *err);

/* For solvers whose costs are approximate: repair until all limits hold; if that fails, start from
 * the most compressed assignment, then from that of solver lagrange. */
int pare_alloc_ensure(struct pare_alloc_state *s, int *choice, struct pare_err *err);

#endif
