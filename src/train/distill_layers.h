/* distill_layers.h - layer-wise distillation: make layers of a student follow its teacher's.
 *
 *     pare_distill_links("conv2, fc1=classifier.0", how, ...)         parse the options
 *     pare_distill_layers_new(...)                                    find the values
 *     build plans of both models that observe d->student and d->teacher
 *     for each batch, after both plans ran and the gradient of output 0 is written:
 *         pare_distill_layers_add(...)
 */
#ifndef PARE_TRAIN_DISTILL_LAYERS_H
#define PARE_TRAIN_DISTILL_LAYERS_H

#include "../plan/plan.h"
#include "distill.h"

/* A layer of the student and the teacher's layer that it follows. */
struct pare_distill_link {
    const char *student, *teacher;
    struct pare_distill_layer conf;
};

/* Options, for all layers or for each. */
struct pare_distill_how {
    struct pare_floats lambda; /* one value or one per layer; none: 1 */
    struct pare_strs method;   /* one value or one per layer; none: mse */
    double temperature;        /* of kl, default 2 */
};
extern const struct pare_opt pare_distill_how_opts[];

/* "conv2" has the same name in both models; "conv2=features.3" does not. */
int pare_distill_links(struct pare_strs text, const struct pare_distill_how *how,
                       struct pare_arena *a, struct pare_distill_link **link, struct pare_err *err);

struct pare_distill_layers {
    const struct pare_distill_link *link;
    int n;
    struct pare_strs student, teacher; /* by link: the output of the layer */
    double *term;                      /* by link: lambda times the term of the last batch */
    double away; /* share of the batch that other processes have; scales the terms down */
};

/* Everything is in the arena.  A name is that of a layer, or else of a value. */
int pare_distill_layers_new(const struct pare_model *student, const struct pare_model *teacher,
                            struct pare_distill_layers *d, struct pare_arena *a,
                            struct pare_err *err);

/* Add all terms to the loss and to the gradients of the student's plan.  The layers are the
 * observed values from `first` on of the student's plan, and from 0 on of the teacher's. */
int pare_distill_layers_add(const struct pare_distill_layers *d, const struct pare_plan *student,
                            int first, const struct pare_plan *teacher, double *loss,
                            struct pare_err *err);

#endif
