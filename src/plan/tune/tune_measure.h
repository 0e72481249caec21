/* tune_measure.h - kernels that could run the same nodes, tried in turn.
 *
 * In a training plan each pass of a step (passes.h) may be another kernel's where layouts agree, so
 * each is tried by itself: rivals are kernels for one pass, in groups of the same layouts, and what
 * wins is the group whose fastest rivals take the least time together.  Kernels whose passes cannot
 * be apart, and all of those of other plans, are a group each.
 */
#ifndef PARE_PLAN_TUNE_TUNE_MEASURE_H
#define PARE_PLAN_TUNE_TUNE_MEASURE_H

#include "passes.h"

#define PARE_TUNE_GROUPS 8
#define PARE_TUNE_CANDIDATES 40
#define PARE_TUNE_NEVER 1e30 /* seconds */

/* A kernel that could run the nodes, or one pass of them. */
struct pare_tune_candidate {
    struct pare_step s;
    struct pare_arena *arena; /* what match() and init() take */
    int group, pass;          /* pass -1: all that are wanted */
    bool guest;               /* the group has not the layouts that it would take by itself */
    bool out;                 /* cannot, or lost already */
    int runs;
    double warm;       /* seconds of the first run, ... */
    double best, next; /* ... and of the fastest and the second fastest of those behind it */
    bool uneven;       /* in the fastest run, some threads had more to do than others */
    double spent;      /* seconds that each thread ran, all in all */
};

/* Rivals with the same layouts. */
struct pare_tune_group {
    struct pare_step s; /* a step with these */
    struct pare_arena *arena;
    bool whole, out;
    double extra; /* conversions that they need around them */
};

struct pare_tune_race {
    struct pare_plan *p;
    bool cold;      /* weights are not in the caches when a layer runs */
    double seconds; /* for all runs, at most */
    struct pare_node *node;
    unsigned wanted;          /* passes */
    struct pare_passes rule;  /* the choice without trials */
    struct pare_passes fixed; /* passes that are not to be chosen */
    struct pare_tune_group group[PARE_TUNE_GROUPS];
    struct pare_tune_candidate candidate[PARE_TUNE_CANDIDATES];
    int n_groups, n;

    /* while they run */
    struct pare_arena *data;
    double *clock;             /* by thread */
    struct pare_tensor *saved; /* the graph's values as they are, by id */
    size_t work_bytes[2];      /* the most that any rival needs, ... */
    struct pare_buf *work[2];  /* ... and all use the same, ... */
    struct pare_buf *buf[PARE_TUNE_GROUPS * (PARE_STEP_IN + 2)]; /* ... as they do these */
    int n_bufs;
};

/* All that can do what this step does; itself among them.  End the contest in any case. */
int pare_tune_race_collect(struct pare_tune_race *c, const struct pare_step *s,
                           struct pare_err *err);

/* Are there several kernels for anything? */
bool pare_tune_race_has_choice(const struct pare_tune_race *c);

/* The group in which these kernels do the passes that are wanted; -1: they cannot. */
int pare_tune_race_find(const struct pare_tune_race *c, const struct pare_passes *w);

/* One rival: give a step memory and let it init(); run it once, and note the time; from one layout
 * to another takes so many seconds more. */
int pare_tune_candidate_prepare(struct pare_tune_race *c, struct pare_step *s,
                                struct pare_arena *arena, struct pare_err *err);
void pare_tune_candidate_run(struct pare_tune_race *c, struct pare_tune_candidate *r);
int pare_tune_candidate_reorder(struct pare_tune_race *c, struct pare_value *v, const int block[2],
                                double *seconds, struct pare_err *err);

/* Let them run: the fastest, or the rule's choice when nobody is clearly faster.  `w` stays as it
 * is when none of them can run. */
int pare_tune_race_run(struct pare_tune_race *c, struct pare_passes *w, struct pare_err *err);
void pare_tune_race_end(struct pare_tune_race *c);

#endif
