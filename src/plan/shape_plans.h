/* shape_plans.h - a few plans of one model, by the shapes of its inputs: full batches and the last
 * one, or items of different shapes that run one by one. */
#ifndef PARE_PLAN_SHAPE_PLANS_H
#define PARE_PLAN_SHAPE_PLANS_H

#include "plan.h"

#define PARE_SHAPE_PLANS 2    /* plans hold packed weights */
#define PARE_SHAPE_INPUTS 256 /* inputs that a model may have */

/* Zeroed at first. */
struct pare_shape_plans {
    struct pare_plan *plan[PARE_SHAPE_PLANS];
    struct pare_tensor in[PARE_SHAPE_PLANS][PARE_SHAPE_INPUTS]; /* shapes */
    int last;                                                   /* the plan of the last call */
};

/* The plan for the shapes of build->opts->in, which has n_in tensors.  It is valid until a call
 * with other shapes; all calls have the same model and build, except for the shapes. */
int pare_shape_plans_get(struct pare_shape_plans *s, const struct pare_model *m,
                         const struct pare_plan_build *build, int n_in, struct pare_plan **plan,
                         struct pare_err *err);
void pare_shape_plans_free(struct pare_shape_plans *s);

/* Whether both are of the same shapes. */
bool pare_shapes_equal(const struct pare_tensor *a, const struct pare_tensor *b, int n);

#endif
