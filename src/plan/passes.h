/* passes.h - training steps whose forward, data and weight passes are run by different kernels.
 *
 * A step of a training plan has three passes (oneDNN: forward, backward_data, backward_weights).
 * Kernels that keep nothing from run() to backward() but the contents of the step's buffers
 * (step.pass_independent) can share a step: the kernel of the forward pass determines the layouts,
 * and the others are matched with those.  For the plan the result is one step, whose kernel is
 * named after all of them.
 */
#ifndef PARE_PLAN_PASSES_H
#define PARE_PLAN_PASSES_H

#include "plan.h"

/* A kernel for each pass, in the order of the bits PARE_PASS_*; NULL: the step has no such pass.
 * Inference plans have only the first. */
struct pare_passes {
    const struct pare_kernel *k[PARE_PASSES];
};

/* The passes that a kernel is matched for; only forward if no result of the node needs a gradient.
 */
unsigned pare_passes_of(const struct pare_plan *p, const struct pare_node *n);

/* The kernels by the rules.  Where the kernel of s does not expect to be fast on a backward pass
 * (step.fast_passes), the first of kernels.def that does gets it. */
int pare_passes_rule(struct pare_plan *p, const struct pare_step *s, struct pare_passes *w,
                     struct pare_err *err);

/* Does one kernel run all passes? */
bool pare_passes_one(const struct pare_passes *w);

/* Match a kernel for what it can run, not only for what it expects to be fast.  Fills s with lists
 * from `arena`.  `layout_from`: as in struct pare_step. */
struct pare_pass_query {
    const struct pare_kernel *k;
    struct pare_node *node;
    unsigned passes;
    const struct pare_step *layout_from;
    struct pare_arena *arena;
};
bool pare_passes_match(struct pare_plan *p, const struct pare_pass_query *a, struct pare_step *s);

/* Free what a matched step holds outside its arena. */
void pare_passes_drop(struct pare_step *s);

/* The step of this node with these kernels; PARE_EUNSUPPORTED if they do not match together. */
int pare_passes_step(struct pare_plan *p, struct pare_node *n, const struct pare_passes *w,
                     struct pare_step *s, struct pare_err *err);

#endif
