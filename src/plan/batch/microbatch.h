/* microbatch.h - plans that run their batch in micro-batches.
 *
 * The activations of a whole batch often exceed the caches, and all threads wait for each other
 * after each layer.  If the items of a batch are independent (graph/batch_independence.h), a plan
 * may instead run a few items through all layers, then the next few.  Each thread has
 * micro-batches, a plan and activations of its own; weights are packed once.
 */
#ifndef PARE_PLAN_BATCH_MICROBATCH_H
#define PARE_PLAN_BATCH_MICROBATCH_H

#include "../plan.h"

struct pare_microbatch {
    struct pare_arena *arena;
    int64_t batch, items;          /* items of a micro-batch; they divide the batch */
    int n;                         /* plans that run concurrently */
    struct pare_plan **plan;       /* plan[0] owns the packed weights */
    struct pare_microbatch_io *io; /* by plan */
};

/* Decide how p, of which only the graph is complete, runs its batch, and set p->microbatch; it
 * stays NULL if p is to run the whole batch and has yet to be planned.  `items`: the size of a
 * micro-batch, an error if that is impossible; PARE_MICROBATCH_AUTO: the rules or tuning choose. */
int pare_microbatch_make(struct pare_plan *p, const struct pare_plan_opts *o, int64_t items,
                         struct pare_err *err);

/* Micro-batches of `items` items on all threads of p.  *made is NULL if the model mixes batch
 * items. */
int pare_microbatch_new(const struct pare_plan *p, const struct pare_plan_opts *o, int64_t items,
                        double *seconds, struct pare_microbatch **made, struct pare_err *err);
void pare_microbatch_free(struct pare_microbatch *s); /* NULL is fine */

/* Run the micro-batches [from, to) of the inputs.  out[] has memory for the whole batch. */
int pare_microbatch_parts(struct pare_microbatch *s, int64_t from, int64_t to,
                          const struct pare_tensor *in, const struct pare_tensor *out,
                          struct pare_err *err);
int pare_microbatch_run(struct pare_plan *p, const struct pare_tensor *in, struct pare_tensor *out,
                        struct pare_err *err);

/* Items of a micro-batch by the rules; the batch size: run it as a whole. */
int64_t pare_microbatch_rule(const struct pare_plan *p);

/* Is there enough work for micro-batches to pay? */
bool pare_microbatch_pays(const struct pare_plan *p);

/* Does `items` divide the batch, with about as many micro-batches for each thread? */
bool pare_microbatch_fits(const struct pare_plan *p, int64_t items);

#endif
