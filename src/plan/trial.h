/* trial.h - kernels that could run the same nodes, tried in turn. */
#ifndef PARE_PLAN_TRIAL_H
#define PARE_PLAN_TRIAL_H

#include "plan.h"

#define PARE_RIVALS 8

/* A kernel that could run the nodes. */
struct pare_rival {
    struct pare_step s;
    struct pare_arena *arena; /* what match() and init() take */
    bool out;                 /* cannot, or lost already */
    int runs;
    double best, next; /* seconds of the fastest run and of the second */
    bool uneven;       /* in the fastest run, some threads had more to do than others */
    double spent;      /* seconds that each thread ran, all in all */
    double extra;      /* conversions that it needs around it */
};

struct pare_contest {
    struct pare_plan *p;
    bool cold;      /* weights are not in the caches when a layer runs */
    double seconds; /* for all runs, at most */
    struct pare_node *node;
    const struct pare_kernel *rule; /* the choice without trials */
    struct pare_rival rival[PARE_RIVALS];
    int n;

    /* while they run */
    struct pare_arena *data;
    double *clock;             /* by thread */
    struct pare_tensor *saved; /* the graph's values as they are, by id */
    struct pare_buf *buf[PARE_RIVALS * (PARE_STEP_IN + 2)]; /* all rivals use the same */
    int n_bufs;
};

/* Does the kernel say that it can, whatever it expects of its speed?  Then it fills in s, with
 * lists from `arena`. */
bool pare_rival_matches(struct pare_plan *p, const struct pare_kernel *k, struct pare_node *n,
                        struct pare_arena *arena, struct pare_step *s);
void pare_rival_drop(struct pare_step *s);

/* All that can do what this step does; itself among them.  End the contest in any case. */
int pare_contest_gather(struct pare_contest *c, const struct pare_step *s, struct pare_err *err);

/* Let them run: the fastest, or the rule's choice when nobody is clearly faster. */
int pare_contest_run(struct pare_contest *c, const struct pare_kernel **k, struct pare_err *err);
void pare_contest_end(struct pare_contest *c);

#endif
