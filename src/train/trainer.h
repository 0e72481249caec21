/* trainer.h - train a model step by step; train.h has the loop around it.
 *
 *     pare_trainer_new(model, &opts, &t, err);
 *     for each batch:
 *         pare_trainer_gradient(t, &x, &y, &score, err);     forward, loss, backward
 *         pare_trainer_update(t, lr, err);                   optimizer, then the hooks
 *
 * Parameters are the model's initializers themselves, so the model can be planned, run and saved at
 * any time.
 */
#ifndef PARE_TRAIN_TRAINER_H
#define PARE_TRAIN_TRAINER_H

#include "../base/rng.h"
#include "../data/data.h"
#include "../plan/shape_plans.h"
#include "distill.h"
#include "distill_layers.h"
#include "loss.h"
#include "optim.h"
#include "allreduce.h"

struct pare_trainer;

struct pare_checkpoint;
struct pare_mixup;

/* Callbacks of training; each may be NULL.  An error ends the training. */
struct pare_hooks {
    void *user;
    int (*at_epoch)(void *user, struct pare_trainer *t, int64_t epoch,
                    struct pare_err *err); /* an epoch begins */
    int (*after_forward)(void *user, struct pare_trainer *t, struct pare_err *err);
    int (*loss)(void *user, struct pare_trainer *t, double *loss,
                struct pare_err *err); /* add a term to *loss */
    int (*after_backward)(void *user, struct pare_trainer *t, struct pare_err *err);
    int (*after_step)(void *user, struct pare_trainer *t, int64_t step, struct pare_err *err);

    /* Add state to a checkpoint, and read it back. */
    int (*save)(void *user, struct pare_checkpoint *k, struct pare_err *err);
    int (*load)(void *user, const struct pare_checkpoint *k, struct pare_err *err);

    /* The parameters are the best so far: save the state that belongs to them.  back: they have
     * been restored, restore that state. */
    int (*keep)(void *user, bool back, struct pare_err *err);

    /* Do the hooks read parameters, gradients or masks between the steps of an epoch?  NULL: yes.
     */
    bool (*looks)(void *user);

    void (*gone)(void *user); /* the trainer is about to be freed */

    /* The training that the hooks need before the result counts: epochs, or steps if these are
     * more.  NULL: none. */
    int (*length)(void *user, int64_t *epochs, int64_t *steps, struct pare_err *err);
};

struct pare_trainer_opts {
    int threads;   /* 0: all cores */
    uint64_t seed; /* of Dropout and other random operators */
    const struct pare_loss *loss;
    const void *loss_conf;
    const struct pare_optimizer *optimizer;
    const void *optimizer_conf;
    double clip_norm, clip_value; /* limits of gradients; 0: none */
    const char *const *freeze;    /* parameters not to train: names, or prefixes followed by * */
    int n_freeze;
    struct pare_model *teacher;           /* NULL: no distillation */
    struct pare_distill_soft soft;        /* distillation of the output */
    const struct pare_distill_link *link; /* distillation by layers */
    int n_links;
    struct pare_strs observe;      /* values to observe: pare_plan_value(t->plan[t->at], i) */
    bool reference;                /* reference kernels only */
    enum pare_precision precision; /* of the student's products; not PARE_PRECISION_AUTO */
    const char *const *without;    /* for tests, see struct pare_plan_build; or NULL */
    struct pare_hooks hooks;

    /* Processes that train one model, each with its part of the batch (pare_dist_batch); NULL: one.
     * With sync_bn, BatchNormalization uses the moments of the whole batch, else each process its
     * own, and running moments are averaged. */
    struct pare_dist *dist;
    bool sync_bn;
};

/* Loss and accuracy of a batch. */
struct pare_score {
    double loss;           /* mean over the batch */
    int64_t n, top1, top5; /* items; those with the right class first, among the first five */
};

/* Parameters in the kernels' layout (param_layout.h). */
struct pare_blocked_param {
    bool want, now;           /* wanted from the next forward pass on; current */
    bool plans;               /* the plans were built for it */
    bool never;               /* plans of two batch sizes disagree */
    bool *param, *ask;        /* by parameter: it is blocked; requested of the next plan */
    int block, threads;       /* of the plans */
    struct pare_arena *arena; /* of `mask` and `room`, while blocked */
    uint8_t **mask;           /* blocked masks, by parameter */
    void *room;               /* for the largest parameter */
};

#define PARE_TRAINER_PLANS 2

struct pare_trainer {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_trainer_opts o;
    struct pare_optim_param *param;
    int n_params;
    const char **name; /* names of the parameters */
    struct pare_tensor *grad;
    struct pare_named *state; /* values that change without gradients: running statistics */
    int n_state;
    struct pare_optim *optim;
    struct pare_rng rng;
    struct pare_plan *plan[PARE_TRAINER_PLANS]; /* by shapes of the inputs */
    struct pare_plan *teacher[PARE_TRAINER_PLANS];
    struct pare_tensor shape[PARE_TRAINER_PLANS][PARE_DATA_INPUTS]; /* of the plans' inputs */
    int n_plans;
    double lr;              /* of the last update */
    int64_t schedule_start; /* the step at which the learning rate's schedule started */
    bool orphan;            /* its hooks and masks were freed: it must not train any further */
    bool stale;             /* plans observe other values than they should */
    struct pare_distill_layers layers;
    struct pare_strs observe;                /* o.observe, then those of `layers` */
    int at;                                  /* index of the plan of the current batch */
    struct pare_tensor in[PARE_DATA_INPUTS]; /* inputs of the current batch */
    struct pare_tensor out; /* output 0 of the current batch; data NULL: consumed */
    struct pare_allreduce allreduce;
    struct pare_blocked_param blocked;
    const struct pare_mixup *mixup; /* of the current batch; NULL: its items are not mixed */
    struct pare_score whole;        /* of the batch of all processes, after the backward pass */
    bool stop; /* a vote to stop; after the backward pass: some process voted */
};

/* Makes all trainable initializers owned, see pare_model_own.  The model (and teacher) must outlive
 * the trainer. */
int pare_trainer_new(struct pare_model *model, const struct pare_trainer_opts *o,
                     struct pare_trainer **trainer, struct pare_err *err);
void pare_trainer_free(struct pare_trainer *t); /* NULL is fine */

/* Forward, loss and backward: t->grad has the gradients, with several processes those of the whole
 * batch, and so has the score.  A loss that is not finite is an error that names the first bad
 * node. */
int pare_trainer_gradient(struct pare_trainer *t, const struct pare_tensor *x,
                          const struct pare_tensor *y, struct pare_score *score,
                          struct pare_err *err);

/* The same in pieces.  out, which may be NULL, is output 0 until the next call.  Instead of
 * computing a loss, the caller can fill pare_plan_out_grad(t->plan[t->at]). */
int pare_trainer_forward(struct pare_trainer *t, const struct pare_tensor *x,
                         struct pare_tensor *out, struct pare_err *err);
int pare_trainer_loss(struct pare_trainer *t, const struct pare_tensor *y, struct pare_score *score,
                      struct pare_err *err); /* of this process's part of the batch */
int pare_trainer_backward(struct pare_trainer *t, struct pare_err *err);

/* From now on train parameter `name` in separate memory, with masked gradients; the model has its
 * product with the mask.  After the mask changes, call pare_trainer_refresh().  *value is a view of
 * that memory. */
int pare_trainer_mask(struct pare_trainer *t, const char *name, const uint8_t *mask,
                      struct pare_tensor *value, struct pare_err *err);
void pare_trainer_refresh(struct pare_trainer *t);

/* Allow parameters, gradients, masks and the optimizer's state to be in the kernels' layout, until
 * this is called with false.  The caller must not read them meanwhile. */
void pare_trainer_block_params(struct pare_trainer *t, bool on);

/* Observe the values of these names instead of the previous ones: after a forward pass,
 * pare_plan_value(t->plan[t->at], i) is the i-th. */
int pare_trainer_watch(struct pare_trainer *t, struct pare_strs names, struct pare_err *err);

/* Index of the parameter; -1: it is frozen or does not exist. */
int pare_trainer_param(const struct pare_trainer *t, const char *name);

int pare_trainer_update(struct pare_trainer *t, double lr, struct pare_err *err);
int pare_trainer_step(struct pare_trainer *t, struct pare_err *err); /* call the hook only */

/* Add to s the rows of `out` (N, C, ...) whose class y (N) is first or among the first five. */
void pare_score_add(struct pare_score *s, const struct pare_tensor *out,
                    const struct pare_tensor *y);

#endif
