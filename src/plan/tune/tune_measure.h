/* tune_measure.h - tuning races: kernels that can run the same nodes run in turn, and the fastest
 * wins. */
#ifndef PARE_PLAN_TUNE_TUNE_MEASURE_H
#define PARE_PLAN_TUNE_TUNE_MEASURE_H

#include "../plan.h"

#define PARE_TUNE_CANDIDATES 8
#define PARE_TUNE_NEVER 1e30 /* seconds */

/* A kernel that can run the nodes. */
struct pare_tune_candidate {
    struct pare_step s;
    struct pare_arena *arena; /* memory of match() and init() */
    bool out;                 /* it failed or has lost */
    int runs;
    double extra;      /* seconds of the layout conversions that it needs */
    double warm;       /* seconds of the first run */
    double best, next; /* seconds of the fastest and second fastest later run */
    bool uneven;       /* in the fastest run, some threads had more work than others */
    double spent;      /* seconds of all runs, by thread */
};

struct pare_tune_race {
    struct pare_plan *p;
    bool cold;      /* weights are not in the caches when a layer runs */
    double seconds; /* limit of all runs */
    struct pare_node *node;
    const struct pare_kernel *rule; /* the choice by the rules */
    struct pare_tune_candidate candidate[PARE_TUNE_CANDIDATES];
    int n;

    /* during the race */
    struct pare_arena *data;
    double *clock;             /* by thread */
    struct pare_tensor *saved; /* the graph's tensors before the race, by value id */
    size_t work_bytes[2];      /* the largest of all candidates */
    struct pare_buf *work[2];  /* shared by all candidates */
    struct pare_buf *buf[PARE_TUNE_CANDIDATES * (PARE_STEP_IN + 2)]; /* shared by all candidates */
    int n_bufs;
};

/* Collect all kernels that can do what the step does, including its own.  Call pare_tune_race_end()
 * in any case. */
int pare_tune_race_collect(struct pare_tune_race *c, const struct pare_step *s,
                           struct pare_err *err);

/* The candidate with this kernel; NULL: none. */
struct pare_tune_candidate *pare_tune_race_find(struct pare_tune_race *c,
                                                const struct pare_kernel *k);

/* One candidate: assign memory and call init(); run it once and record the time; add the seconds of
 * a layout conversion. */
int pare_tune_candidate_prepare(struct pare_tune_race *c, struct pare_step *s,
                                struct pare_arena *arena, struct pare_err *err);
void pare_tune_candidate_run(struct pare_tune_race *c, struct pare_tune_candidate *r);
int pare_tune_candidate_reorder(struct pare_tune_race *c, struct pare_value *v, const int block[2],
                                double *seconds, struct pare_err *err);

/* Run the race.  *k is the fastest, or the rules' choice unless another is clearly faster;
 * unchanged if no candidate can run. */
int pare_tune_race_run(struct pare_tune_race *c, const struct pare_kernel **k,
                       struct pare_err *err);
void pare_tune_race_end(struct pare_tune_race *c);

#endif
