/* distill_layers.h - layers of a student that are to do what layers of its teacher do.
 *
 *     pare_distill_links("conv2, fc1=classifier.0" and how, ...)      what people write
 *     pare_distill_layers_new(...)                                    which values these are
 *     plans of both models that keep d->student and d->teacher
 *     for each batch, when both have run and output 0's gradient is written:
 *         pare_distill_layers_add(...)
 */
#ifndef PARE_TRAIN_DISTILL_LAYERS_H
#define PARE_TRAIN_DISTILL_LAYERS_H

#include "../plan/plan.h"
#include "distill.h"

/* One layer and the teacher's that it follows. */
struct pare_distill_link {
    const char *student, *teacher;
    struct pare_distill_layer conf;
};

/* How, for all layers or one by one. */
struct pare_distill_how {
    struct pare_floats lambda; /* one for all, or one each; none: 1 */
    struct pare_strs method;   /* the same; none: mse */
    double temperature;        /* of kl, 2 */
};
extern const struct pare_opt pare_distill_how_opts[];

/* "conv2" is called the same in both models; "conv2=features.3" is not. */
int pare_distill_links(struct pare_strs text, const struct pare_distill_how *how,
                       struct pare_arena *a, struct pare_distill_link **link, struct pare_err *err);

struct pare_distill_layers {
    const struct pare_distill_link *link;
    int n;
    struct pare_strs student, teacher; /* by link: the value that leaves the layer */
    double *term;                      /* by link: what the last batch came to, times lambda */
    double away; /* part of the batch that other processes have; their terms are not counted */
};

/* All in the arena.  A name is a layer's, or else a value's. */
int pare_distill_layers_new(const struct pare_model *student, const struct pare_model *teacher,
                            struct pare_distill_layers *d, struct pare_arena *a,
                            struct pare_err *err);

/* Adds all terms to the loss and to the gradients of the student's plan.  The values are number
 * `first` and following among those that this plan keeps, and 0 and following of the teacher's. */
int pare_distill_layers_add(const struct pare_distill_layers *d, const struct pare_plan *student,
                            int first, const struct pare_plan *teacher, double *loss,
                            struct pare_err *err);

#endif
