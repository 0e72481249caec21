/* alloc_state.h - a checked allocation problem with its adjacency: sums, moves and violations. */
#ifndef PARE_SEARCH_ALLOC_STATE_H
#define PARE_SEARCH_ALLOC_STATE_H

#include "solver.h"

/* A factor with distinct variables; the strides of one that occurs twice are added. */
struct pare_alloc_term {
    int n;
    int var[PARE_FACTOR_VARS];
    int64_t stride[PARE_FACTOR_VARS];
    int64_t cells;
};

struct pare_alloc_state {
    const struct pare_alloc_problem *p;
    struct pare_arena *arena;
    struct pare_alloc_term *term; /* (n_factors) */
    int *first, *list; /* factors of variable v: list[first[v]] .. list[first[v + 1] - 1] */
    int most;          /* choices of the variable with the most */
    double scale[PARE_BUDGETS]; /* excess of 1 in a violation */

    /* Set by solvers; see struct pare_alloc_result. */
    bool optimal, exact_steps;
    double bound;
    int width;
};

/* Error and costs of an assignment, or their change by a move. */
struct pare_alloc_sums {
    int forbidden; /* factors with an infinite error, which `error` leaves out */
    double error;
    double cost[PARE_BUDGETS]; /* with `fixed`, unless it is a change */
};

/* Up to two variables that take other choices; the second has var -1 if there is only one. */
struct pare_alloc_move {
    int var[2], to[2];
};

/* A solver: one file solve_<name>.c, one line in solvers.def.  choice (n_vars) is 0 at first. */
struct pare_alloc_solver {
    const char *name;
    int (*solve)(struct pare_alloc_state *s, int *choice, struct pare_err *err);
};

/* Check the problem and list the factors of each variable.  The problem must outlive the state. */
int pare_alloc_state_init(struct pare_alloc_state *s, const struct pare_alloc_problem *p,
                          struct pare_arena *arena, struct pare_err *err);

int64_t pare_alloc_cell(const struct pare_alloc_term *t, const int *choice);
void pare_alloc_sum(const struct pare_alloc_state *s, const int *choice,
                    struct pare_alloc_sums *sum);

/* What the move adds to the sums of `choice`.  choice is restored before return. */
void pare_alloc_change(const struct pare_alloc_state *s, int *choice,
                       const struct pare_alloc_move *m, struct pare_alloc_sums *d);
void pare_alloc_apply(int *choice, const struct pare_alloc_move *m);

/* Sum of the excesses over the limits, relative to them. */
double pare_alloc_violation(const struct pare_alloc_state *s, const struct pare_alloc_sums *sum);

/* Not forbidden, within all limits. */
bool pare_alloc_feasible(const struct pare_alloc_state *s, const struct pare_alloc_sums *sum);

/* a is better than b: fewer forbidden factors, then a smaller violation, then a smaller error. */
bool pare_alloc_better(const struct pare_alloc_state *s, const struct pare_alloc_sums *a,
                       const struct pare_alloc_sums *b);

/* The budget that dense exceeds most, relative to its limit; -1 without budgets. */
int pare_alloc_tightest(const struct pare_alloc_state *s);

/* The error of variable v at choice c with the others dense, minus that of dense; infinity:
 * forbidden.  `dense` is all 0, and is so again on return. */
double pare_alloc_single_error(const struct pare_alloc_state *s, int *dense, int v, int c);

#endif
