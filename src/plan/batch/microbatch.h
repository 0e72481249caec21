/* microbatch.h - plans that run their batch in parts.
 *
 * What a layer makes of a whole batch is more than the caches hold, and all threads wait for each
 * other after each layer.  Where the items of a batch are apart (graph/batch_independence.h), a plan may instead
 * run a few of them through all layers, and then the next; each thread with parts of its own, its
 * own plan for them and memory for their activations.  Weights are packed once for all.
 */
#ifndef PARE_PLAN_BATCH_MICROBATCH_H
#define PARE_PLAN_BATCH_MICROBATCH_H

#include "../plan.h"

struct pare_microbatch {
    struct pare_arena *arena;
    int64_t batch, items;    /* items of a part: they divide the batch; all of it is one part */
    int n;                   /* plans that run parts side by side */
    struct pare_plan **plan; /* the first has the weights */
    struct pare_microbatch_io *io; /* by plan */
};

/* Decide how p, which has its graph, runs its batch, and make p->microbatch unless it is as a whole and
 * the plan is still to be made.  `items`: parts must have so many, or it is an error; 0: the best
 * way is taken. */
int pare_microbatch_make(struct pare_plan *p, const struct pare_plan_opts *o, int64_t items,
                         struct pare_err *err);

/* Parts of so many items on all threads of p.  *split is NULL when the items are not apart. */
int pare_microbatch_new(const struct pare_plan *p, const struct pare_plan_opts *o, int64_t items,
                        double *seconds, struct pare_microbatch **made, struct pare_err *err);
void pare_microbatch_free(struct pare_microbatch *s); /* NULL is fine */

/* The parts [from, to), of inputs of the whole batch.  out[] is the memory for the whole. */
int pare_microbatch_parts(struct pare_microbatch *s, int64_t from, int64_t to,
                          const struct pare_tensor *in, const struct pare_tensor *out,
                          struct pare_err *err);
int pare_microbatch_run(struct pare_plan *p, const struct pare_tensor *in, struct pare_tensor *out,
                        struct pare_err *err);

/* How many items a part has by the rules; all of the batch: it is run as a whole. */
int64_t pare_microbatch_rule(const struct pare_plan *p);

/* Is there enough to do that parts may be worth it? */
bool pare_microbatch_pays(const struct pare_plan *p);

/* Can parts have so many items, with about as many parts for each thread? */
bool pare_microbatch_fits(const struct pare_plan *p, int64_t items);

#endif
