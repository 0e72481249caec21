/* passes.h - training steps whose passes are different kernels'.
 *
 * A step of a training plan goes three passes: forward, and back to the gradients of the data and of
 * the weights.  Kernels that keep nothing from one to the other but what is in the step's buffers
 * (step.apart) may share a step: the one that goes forward says in which layouts, and the others
 * are matched beside it.  For the plan that is one step like any other, by a kernel whose name has
 * all of theirs.
 */
#ifndef PARE_PLAN_TUNE_PASSES_H
#define PARE_PLAN_TUNE_PASSES_H

#include "../plan.h"

/* A kernel for each pass, in the order of their bits; NULL: nobody wants it.  Without gradients only
 * the first. */
struct pare_passes {
    const struct pare_kernel *k[PARE_PASSES];
};

/* "forward", "data", "weights" */
extern const char *const pare_pass_names[PARE_PASSES];

/* Those that a node's kernel is asked for: only forward where no result has a gradient in training,
 * since it is beside the pass to the loss. */
unsigned pare_passes_of(const struct pare_plan *p, const struct pare_node *n);

/* Which of its passes are wanted. */
unsigned pare_passes_wanted(const struct pare_plan *p, const struct pare_step *s);

/* Those of the rules: of a step that goes forward, where it says that others are faster back, the
 * first of the list that are. */
int pare_passes_rule(struct pare_plan *p, const struct pare_step *s, struct pare_passes *w,
                     struct pare_err *err);

/* Is it one kernel all the pass? */
bool pare_passes_one(const struct pare_passes *w);

bool pare_passes_same(const struct pare_passes *a, const struct pare_passes *b);

/* Does the kernel say that it can, whatever it expects of its speed?  Then it fills in s, with
 * lists from `arena`.  `beside` as in struct pare_step. */
struct pare_pass_query {
    const struct pare_kernel *k;
    struct pare_node *node;
    unsigned passes;
    const struct pare_step *beside;
    struct pare_arena *arena;
};
bool pare_passes_match(struct pare_plan *p, const struct pare_pass_query *a, struct pare_step *s);

/* Give back what a step that was matched holds beside its arena. */
void pare_passes_drop(struct pare_step *s);

/* The step of this node by these kernels; PARE_EUNSUPPORTED when they cannot. */
int pare_passes_step(struct pare_plan *p, struct pare_node *n, const struct pare_passes *w,
                     struct pare_step *s, struct pare_err *err);

#endif
