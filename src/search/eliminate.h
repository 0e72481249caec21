/* eliminate.h - exact minimum of a weighted sum of factors by variable elimination.
 *
 * Variables are eliminated in an order that adds few edges (min-fill).  Eliminating variable v sums
 * the factors and messages that contain it and takes the minimum over its choices: a message over
 * its neighbors, the separator.  The last messages are constants: their sum is the minimum.
 */
#ifndef PARE_SEARCH_ELIMINATE_H
#define PARE_SEARCH_ELIMINATE_H

#include "alloc_state.h"

/* A step of the elimination.  Its message is term n_factors + v. */
struct pare_elim_step {
    int var;
    int n_sep, *sep;    /* variables of the message, row-major */
    int64_t cells;      /* of the message */
    int n_terms, *term; /* factors and messages that contain the variable */
    int64_t *stride;    /* (n_terms, n_sep + 1) per variable of the separator, then of `var` */
};

struct pare_elim {
    const struct pare_alloc_state *s;
    struct pare_elim_step *step; /* (n_vars) in order of elimination */
    bool exact;                  /* false: the tables would be too large, only width is valid */
    int width;                   /* the largest n_sep */
    int64_t *base;               /* scratch: (most terms of a step) */
    int *pos;                    /* scratch: (width) */
    double *sum;                 /* scratch: (most choices) */
};

/* Weights of a sum: of the error, of each cost. */
struct pare_alloc_weights {
    double error, cost[PARE_BUDGETS];
};

/* Factors and messages for given weights; infinite where the error is. */
struct pare_elim_tables {
    double **table; /* (n_factors + n_vars) */
    double least;   /* the minimum, without fixed costs; infinity: everything is forbidden */
};

int pare_elim_init(struct pare_elim *e, const struct pare_alloc_state *s, struct pare_err *err);
int pare_elim_tables_init(const struct pare_elim *e, struct pare_elim_tables *t,
                          struct pare_err *err);

/* Compute all messages, first to last. */
void pare_elim_run(const struct pare_elim *e, const struct pare_alloc_weights *w,
                   struct pare_elim_tables *t);

/* sum[c] for all choices c of the step's variable: the least sum of its factors and of everything
 * eliminated through them, for given choices of the separator. */
void pare_elim_sums(const struct pare_elim *e, const struct pare_elim_step *st,
                    const struct pare_elim_tables *t, const int *choice, double *sum);

/* The cell of the step's message for given choices. */
int64_t pare_elim_cell(const struct pare_elim *e, const struct pare_elim_step *st,
                       const int *choice);

/* The assignment of the minimum; of equal choices the smallest. */
void pare_elim_best(const struct pare_elim *e, const struct pare_elim_tables *t, int *choice);

#endif
