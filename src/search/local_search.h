/* local_search.h - moves of one or two variables: repair of violated budgets, filling of what is
 * left of them, and iterated conditional modes for sums of factors. */
#ifndef PARE_SEARCH_LOCAL_SEARCH_H
#define PARE_SEARCH_LOCAL_SEARCH_H

#include "eliminate.h"

/* Single choices that reduce the violation, those first that cost the least error per reduction;
 * then pairs.  Ends when the assignment is feasible or no move reduces the violation. */
void pare_alloc_repair(const struct pare_alloc_state *s, int *choice);

/* For a feasible assignment: upgrades by error per cost while they fit, then swaps (one variable
 * up, one down), until none reduces the error.  Otherwise nothing. */
void pare_alloc_fill(const struct pare_alloc_state *s, int *choice);

/* Reduce the weighted sum by iterated conditional modes from 8 starts, one of them `choice`, and by
 * pairs of variables that share a factor.  scratch: (n_vars). */
void pare_alloc_modes(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                      int *choice, int *scratch);

#endif
