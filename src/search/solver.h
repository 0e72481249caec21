/* solver.h - budget allocation: choices of all variables with the least error within cost budgets.
 *
 * A problem is a factor graph.  A variable is what can be chosen: the number of channels of a
 * dependency group, the format of a layer.  A factor is a table over the choices of up to four
 * variables: the time of a layer by the channels of its input, those of its output and its format.
 *
 *     minimize the sum of errors  so that  fixed[b] + sum of costs[b] <= limit[b]  for all b
 *
 * All functions are deterministic: equal problems give equal choices.
 */
#ifndef PARE_SEARCH_SOLVER_H
#define PARE_SEARCH_SOLVER_H

#include <pare/base.h>

#define PARE_BUDGETS 3       /* kinds of cost: latency, size, MACs */
#define PARE_FACTOR_VARS 4   /* variables of a factor */
#define PARE_ALLOC_VARS 1024 /* variables of a problem */

struct pare_alloc_var {
    const char *name; /* for messages */
    int n;            /* choices 0 .. n-1; 0: dense, larger: more compressed */
};

/* Tables are row-major over the choices of the variables: that of var[n_vars - 1] runs fastest. */
struct pare_alloc_factor {
    int n_vars;                       /* 0 .. PARE_FACTOR_VARS; 0: a constant */
    const int *var;                   /* (n_vars); the same variable may occur twice */
    const double *error;              /* NULL: 0; +infinity: forbidden; may be negative */
    const double *cost[PARE_BUDGETS]; /* NULL: 0; finite; may be negative */
};

struct pare_alloc_problem {
    const struct pare_alloc_var *vars;
    int n_vars;
    const struct pare_alloc_factor *factors;
    int n_factors;
    int n_budgets;              /* 0 .. PARE_BUDGETS */
    double fixed[PARE_BUDGETS]; /* cost of everything that is not a factor */
    double limit[PARE_BUDGETS]; /* infinity: only reported */
};

struct pare_alloc_result {
    double error;              /* infinity: a forbidden choice, because there is no other */
    double cost[PARE_BUDGETS]; /* with `fixed` */
    bool feasible;             /* no choice is forbidden and all limits hold */
    bool optimal;              /* proven: no assignment within the limits has a smaller error */
    double bound;              /* no assignment within the limits has a smaller error than this;
                                  -infinity: not known */
    int width;                 /* variables of the largest table of the elimination, minus one;
                                  -1: the solver does not eliminate */
    bool exact_steps;          /* each relaxed problem was solved exactly, by elimination; false:
                                  tables would be too large, or another solver */
};

/* Choose.  `solver` is a name of solvers.def; NULL: "lagrange".  choice is (n_vars).  Without a
 * feasible assignment the result is the one with the smallest violation, the sum over budgets of
 * the excess relative to the limit, and r->feasible is false; with several budgets both are found
 * by local search.  Memory is taken from the arena and given back. */
int pare_alloc_solve(const struct pare_alloc_problem *p, const char *solver,
                     struct pare_arena *arena, int *choice, struct pare_alloc_result *r,
                     struct pare_err *err);

/* Error and costs of given choices; optimal is false and bound -infinity. */
int pare_alloc_evaluate(const struct pare_alloc_problem *p, const int *choice,
                        struct pare_arena *arena, struct pare_alloc_result *r,
                        struct pare_err *err);

/* A front of n >= 2 assignments by "lagrange": limit[budget] takes n evenly spaced values from the
 * cost of dense to the smallest that the other limits admit.  No later assignment has a smaller
 * error. */
struct pare_alloc_front {
    int budget;                  /* whose limit varies; the problem's is ignored */
    int n;                       /* assignments */
    int *choice;                 /* (n, n_vars) */
    struct pare_alloc_result *r; /* (n) */
};

int pare_alloc_front(const struct pare_alloc_problem *p, const struct pare_alloc_front *f,
                     struct pare_arena *arena, struct pare_err *err);

/* Names of all solvers for option tables, "a|b|c", and what they do. */
extern const char pare_alloc_solver_list[], pare_alloc_solver_help[];
#define PARE_ALLOC_SOLVERS (pare_alloc_solver_list + 1)

#endif
