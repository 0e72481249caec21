/* budget_run.h - one run of pare_compress_budget(): what compress_budget.c and its parts share.
 *
 *     compress_budget.c  the run
 *     budget_measure.c   latency, accuracy and outputs of a model, which the journal may know
 *     budget_shapes.c    solve and measure models of the solution's shapes
 *     budget_score.c     real losses of assignments: sensitivities, and scores of candidates
 *     budget_refine.c    candidates by coefficients of errors and by changes of the best one
 */
#ifndef PARE_SEARCH_BUDGET_RUN_H
#define PARE_SEARCH_BUDGET_RUN_H

#include "budget_search.h"
#include "runner.h"

#define PARE_BUDGET_MARGIN \
    0.985 /* of the latency limit, that the first model aims at, and of a limit that a model
           * exceeded */

/* An assignment and its real loss. */
struct pare_candidate_shape {
    struct pare_assignment x;
    double cost[PARE_BUDGET_KINDS]; /* predicted */
    double us;                      /* measured; 0: not yet */
    double score;                   /* expected increase of the loss, or the real one */
};

#define PARE_BUDGET_FINALISTS 3

/* A model that was built in full. */
struct pare_budget_trial {
    struct pare_model *model;
    struct pare_assignment x;
    double cost[PARE_BUDGET_KINDS], predicted[PARE_BUDGET_KINDS];
    double accuracy;           /* on the held-out items; -1: none */
    struct pare_paired paired; /* the same; n is 0: none */
    struct pare_output_distance d;
    bool budget_met, drop_met;
    double cpu_share; /* while its latency was measured; 0: not known */
    bool feasible;    /* the solver expects that the limits hold */
};

struct pare_budget_run {
    struct pare_budget_search s;
    struct pare_compress_budget_report *r;
    struct pare_budget_limits limits;
    double dense[PARE_BUDGET_KINDS]; /* costs of the original; latency in microseconds */
    double accuracy;                 /* of the original on the held-out items; -1: none */
    double start;
    double cpu_share; /* of the last race; 0: none */
    struct pare_budget_trial best;
    struct pare_candidate_shape finalist[PARE_BUDGET_FINALISTS]; /* of pare_budget_shapes() */
    int n_finalists;
    struct pare_runner runner; /* with o->runner */
};

/* ---- budget_measure.c ------------------------------------------------------------------------ */

/* A line for the caller, NULL: none; "12 s" since the start. */
void pare_budget_say(const struct pare_budget_run *w, const char *line);
const char *pare_budget_elapsed(const struct pare_budget_run *w);

/* On the held-out items: accuracy, -1: no labels; predictions against the original's; outputs. */
int pare_budget_accuracy(struct pare_budget_run *w, const struct pare_model *m, double *accuracy,
                         struct pare_err *err);
int pare_budget_pairs(struct pare_budget_run *w, const struct pare_model *m, struct pare_paired *p,
                      struct pare_err *err);
/* Models among which held-out items choose: the error probability of their bounds is divided by
 * this, so that the bound of the chosen one holds. */
int pare_budget_looks(const struct pare_budget_run *w);
int pare_budget_distance(struct pare_budget_run *w, const struct pare_model *m,
                         struct pare_output_distance *d, struct pare_err *err);

/* Does the data have class labels, so that predictions can be compared one by one? */
bool pare_budget_has_classes(const struct pare_data *d);

/* Is latency measured?  Times of another device alone cannot be. */
bool pare_budget_is_measured(const struct pare_budget_run *w);

/* Latency relative to the original's, in the same race. */
int pare_budget_race(struct pare_budget_run *w, const struct pare_model *m, double seconds,
                     double *part, struct pare_err *err);

/* ---- budget_shapes.c ------------------------------------------------------------------------- */

/* The candidate as what is to be built. */
void pare_budget_take(const struct pare_budget_run *w, const struct pare_candidate_shape *y,
                      struct pare_budget_trial *t);

int pare_assignment_new(const struct pare_budget_search *s, struct pare_assignment *x,
                        struct pare_err *err);
bool pare_assignment_same(const struct pare_budget_search *s, const struct pare_assignment *x,
                          const struct pare_assignment *y);
void pare_assignment_copy(const struct pare_budget_search *s, const struct pare_assignment *from,
                          struct pare_assignment *to);

/* Limits in the units of the cost table.  A part of the latency is one of the table's own time of
 * the original, so that a fast or slow moment of the machine cancels. */
void pare_budget_absolute(const struct pare_budget_run *w, const double part[PARE_BUDGET_KINDS],
                          double limit[PARE_BUDGET_KINDS]);

/* Decide: t->x, t->predicted and t->cost, whose latency is measured; w->finalist: the same, and
 * those whose score is almost as good.  aim: the factor of the
 * latency limit that the solver gets; it is kept for the next call.  trials: candidates that are
 * scored, at most; 0: the expected loss decides. */
int pare_budget_shapes(struct pare_budget_run *w, const double *limit, double *aim, int trials,
                       struct pare_budget_trial *t, struct pare_err *err);

/* ---- budget_refine.c ------------------------------------------------------------------------- */

#define PARE_BUDGET_POOL 128

/* Score the pool, except for what was measured to exceed the limit, and fill it with up to `trials`
 * candidates within the limits, of the latency's the part `aim`. */
int pare_budget_refine(struct pare_budget_run *w, const double *limit, double aim, int trials,
                       struct pare_candidate_shape *pool, int *n, struct pare_err *err);

/* Real losses that one limit is worth, by the work that one of them is; candidates that are scored:
 * as many with the default solver, none with the others. */
int pare_budget_effort(const struct pare_budget_run *w);
int pare_budget_trials(const struct pare_budget_run *w);

#endif
