/* budget_search.h - compress to a budget: internals of compress_budget.c and its parts.
 *
 *     budget_limits.c   "latency=0.5 size=400KB" to limits
 *     budget_curves.c   the expected increase of the loss by the channels of each group
 *     budget_noise.c    the same by rounding each layer to int8
 *     budget_problem.c  these and the cost table as a problem for the solver
 *     budget_model.c    the real model of an assignment: removed, repaired, trained, rounded
 *     budget_journal.c  results of an interrupted search
 *     budget_resume.c   what the journal has of it
 *     budget_score.c    real losses of assignments
 *     budget_run.h      the search
 */
#ifndef PARE_SEARCH_BUDGET_SEARCH_H
#define PARE_SEARCH_BUDGET_SEARCH_H

#include <pare/budget.h>

#include "budget_journal.h"
#include "cost_table.h"
#include "solver.h"

#include "../compress/held_out.h"

/* A limit is a part of the original's cost, or absolute (part 0); infinite: none. */
struct pare_budget_limits {
    double part[PARE_BUDGET_KINDS], absolute[PARE_BUDGET_KINDS];
};
int pare_budget_limits_parse(const char *text, struct pare_budget_limits *l, struct pare_err *err);

/* Is the method in the list "channels,int8"?  NULL: all are.  Are all methods of a list known? */
bool pare_budget_has_method(const char *methods, const char *name);
int pare_budget_check_methods(const char *methods, struct pare_err *err);

/* What an assignment is. */
struct pare_assignment {
    int64_t *count;                /* by group of the table */
    enum pare_cost_format *format; /* by layer */
};

struct pare_budget_search {
    const struct pare_compress_budget_opts *o;
    struct pare_arena *arena;
    struct pare_model *model; /* the original */
    struct pare_data *held, *rest;
    bool channels, int8; /* methods */
    struct pare_cost_table *table;
    struct pare_journal journal;

    struct pare_cost_units units; /* of the original; ranks are by importance: 0 is kept longest */
    double **error;               /* by group, by its choices: the expected increase of the loss */
    double *noise;                /* by layer: the expected increase of the loss by int8 */
    double rounded; /* the real increase with all layers in int8; negative: not known */

    /* For pare_budget_solve(); NULL: 1, free. */
    const double *times;   /* coefficients of the errors of groups, then of the noise of layers */
    const int64_t *pinned; /* by group: the count that it must have; -1: free */
    const char *solver;    /* instead of the options' */
};

/* Make units, error and noise, of which nothing is known; fill the first two; the last. */
int pare_budget_errors_open(struct pare_budget_search *s, struct pare_err *err);
int pare_budget_curves(struct pare_budget_search *s, struct pare_err *err);
int pare_budget_noise(struct pare_budget_search *s, struct pare_err *err);

/* Open the journal of the options' folder; all errors, which the journal may know. */
int pare_budget_resume(struct pare_budget_search *s, struct pare_err *err);
int pare_budget_errors(struct pare_budget_search *s, struct pare_err *err);

/* The assignment with the least error within limits. */
int pare_budget_solve(const struct pare_budget_search *s, const double limit[PARE_BUDGET_KINDS],
                      struct pare_assignment *x, struct pare_alloc_result *r, struct pare_err *err);

/* What a model loses, in the unit of the option `sensitivity`: the Kullback-Leibler divergence of
 * class probabilities from the original's, or the noise of outputs. */
double pare_budget_loss(const struct pare_budget_search *s, const struct pare_output_distance *d);

/* The items that losses are measured on: not the held-out ones, and nothing is fitted to them. */
void pare_budget_score_items(const struct pare_budget_search *s, struct pare_held_out *h);

/* The real loss of an assignment: channels are removed and the rest is repaired quickly; int8 adds
 * its expected noise, scaled to what the loss of the whole model in int8 is. */
int pare_budget_score(struct pare_budget_search *s, const struct pare_assignment *x, double *score,
                      struct pare_err *err);

/* Unless the option `sensitivity` is fisher: scale errors of groups and noise of layers to real
 * losses, of each group alone at up to `points` counts. */
int pare_budget_losses(struct pare_budget_search *s, int points, struct pare_err *err);

/* The real model; epochs 0: not trained.  With a folder of the journal, it is kept there. */
int pare_budget_build(struct pare_budget_search *s, const struct pare_assignment *x, int64_t epochs,
                      struct pare_model **out, struct pare_err *err);

#endif
