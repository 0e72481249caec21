/* tune_measure.h - tuning races: candidates for the same nodes run in turn, and the fastest wins.
 *
 * In a training plan, each pass of a step (passes.h) can have a kernel of its own if the layouts
 * agree. So a candidate is a kernel for one pass, and candidates with the same layouts form a
 * group; the group wins whose fastest candidates take the least time in sum.  Kernels that must run
 * all passes, and all kernels of inference plans, are a group of one.
 */
#ifndef PARE_PLAN_TUNE_TUNE_MEASURE_H
#define PARE_PLAN_TUNE_TUNE_MEASURE_H

#include "passes.h"

#define PARE_TUNE_GROUPS 8
#define PARE_TUNE_CANDIDATES 40
#define PARE_TUNE_NEVER 1e30 /* seconds */

/* A kernel that can run the nodes, or one pass of them. */
struct pare_tune_candidate {
    struct pare_step s;
    struct pare_arena *arena; /* memory of match() and init() */
    int group, pass;          /* pass -1: all passes of the step */
    bool guest;               /* the group's layouts are not those that it prefers */
    bool out;                 /* it failed or has lost */
    int runs;
    double warm;       /* seconds of the first run */
    double best, next; /* seconds of the fastest and second fastest later run */
    bool uneven;       /* in the fastest run, some threads had more work than others */
    double spent;      /* seconds of all runs, by thread */
};

/* Candidates with the same layouts. */
struct pare_tune_group {
    struct pare_step s; /* a step with these layouts */
    struct pare_arena *arena;
    bool whole, out;
    double extra; /* seconds of the layout conversions that the group needs */
};

struct pare_tune_race {
    struct pare_plan *p;
    bool cold;      /* weights are not in the caches when a layer runs */
    double seconds; /* limit of all runs */
    struct pare_node *node;
    unsigned wanted;          /* passes of the step */
    struct pare_passes rule;  /* the choice by the rules */
    struct pare_passes fixed; /* passes whose kernel is given; others are NULL */
    struct pare_tune_group group[PARE_TUNE_GROUPS];
    struct pare_tune_candidate candidate[PARE_TUNE_CANDIDATES];
    int n_groups, n;

    /* during the race */
    struct pare_arena *data;
    double *clock;             /* by thread */
    struct pare_tensor *saved; /* the graph's tensors before the race, by value id */
    size_t work_bytes[2];      /* the largest of all candidates */
    struct pare_buf *work[2];  /* shared by all candidates */
    struct pare_buf *buf[PARE_TUNE_GROUPS * (PARE_STEP_IN + 2)]; /* shared by all candidates */
    int n_bufs;
};

/* Collect all kernels that can do what the step does, including its own.  Call pare_tune_race_end()
 * in any case. */
int pare_tune_race_collect(struct pare_tune_race *c, const struct pare_step *s,
                           struct pare_err *err);

/* Are there at least two different kernels? */
bool pare_tune_race_has_choice(const struct pare_tune_race *c);

/* The group in which these kernels can run the step's passes; -1: none. */
int pare_tune_race_find(const struct pare_tune_race *c, const struct pare_passes *w);

/* One candidate: assign memory and call init(); run it once and record the time; add the seconds of
 * a layout conversion. */
int pare_tune_candidate_prepare(struct pare_tune_race *c, struct pare_step *s,
                                struct pare_arena *arena, struct pare_err *err);
void pare_tune_candidate_run(struct pare_tune_race *c, struct pare_tune_candidate *r);
int pare_tune_candidate_reorder(struct pare_tune_race *c, struct pare_value *v, const int block[2],
                                double *seconds, struct pare_err *err);

/* Run the race.  *w is the fastest, or the rules' choice unless another is clearly faster;
 * unchanged if no candidate can run. */
int pare_tune_race_run(struct pare_tune_race *c, struct pare_passes *w, struct pare_err *err);
void pare_tune_race_end(struct pare_tune_race *c);

#endif
