/* branch_bound.h - enumeration of all assignments that can be better than a known one. */
#ifndef PARE_SEARCH_BRANCH_BOUND_H
#define PARE_SEARCH_BRANCH_BOUND_H

#include "eliminate.h"

/* Improve `choice` with the multipliers w->cost (w->error is 1).  A feasible x with a smaller error
 * than U satisfies error(x) + w * cost(x) < U + w * limit, and the messages of the elimination give
 * the smallest left side of all completions of a partial assignment: everything at or above the
 * right side is skipped.  The same for the error alone and each cost alone.  If `choice` is not
 * feasible, U is infinite at first.  *done: nothing was left out for lack of time, so that `choice`
 * is optimal, or there is no feasible assignment if it still is not. */
int pare_alloc_branch(const struct pare_elim *e, const struct pare_alloc_weights *w, int *choice,
                      bool *done, struct pare_err *err);

#endif
