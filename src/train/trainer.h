/* trainer.h - a model that learns, one batch at a time; train.h has the loop around it.
 *
 *     pare_trainer_new(model, &opts, &t, err);
 *     for each batch:
 *         pare_trainer_gradient(t, &x, &y, &score, err);     forward, loss, backward
 *         pare_trainer_update(t, lr, err);                   optimizer, then the hooks
 *
 * Parameters are the model's initializers themselves, so at any moment the model is what has been
 * learned so far: it can be planned, run and saved.
 */
#ifndef PARE_TRAIN_TRAINER_H
#define PARE_TRAIN_TRAINER_H

#include "../base/rng.h"
#include "../data/data.h"
#include "../plan/plan.h"
#include "distill.h"
#include "distill_layers.h"
#include "loss.h"
#include "optim.h"
#include "allreduce.h"

struct pare_trainer;

struct pare_checkpoint;

/* Named points of training; each may be NULL.  An error ends the training. */
struct pare_hooks {
    void *user;
    int (*at_epoch)(void *user, struct pare_trainer *t, int64_t epoch,
                    struct pare_err *err); /* one begins */
    int (*after_forward)(void *user, struct pare_trainer *t, struct pare_err *err);
    int (*loss)(void *user, struct pare_trainer *t, double *loss,
                struct pare_err *err); /* add to it */
    int (*after_backward)(void *user, struct pare_trainer *t, struct pare_err *err);
    int (*after_step)(void *user, struct pare_trainer *t, int64_t step, struct pare_err *err);

    /* What has to be in a checkpoint besides. */
    int (*save)(void *user, struct pare_checkpoint *k, struct pare_err *err);
    int (*load)(void *user, const struct pare_checkpoint *k, struct pare_err *err);

    /* The parameters are the best so far, keep what belongs to them; back: they are again what was
     * kept last. */
    int (*keep)(void *user, bool back, struct pare_err *err);

    /* Does it look at parameters, gradients or masks between the steps of an epoch, with the hooks
     * that it has?  NULL: yes. */
    bool (*looks)(void *user);

    void (*gone)(void *user); /* the trainer is about to be freed */
};

struct pare_trainer_opts {
    int threads;   /* 0: all cores */
    uint64_t seed; /* of Dropout and its like */
    const struct pare_loss *loss;
    const void *loss_conf;
    const struct pare_optimizer *optimizer;
    const void *optimizer_conf;
    double clip_norm, clip_value; /* of gradients; 0: off */
    const char *const *freeze;    /* names, or beginnings with a * behind */
    int n_freeze;
    struct pare_model *teacher;           /* or NULL */
    struct pare_distill_soft soft;        /* how to learn from it */
    const struct pare_distill_link *link; /* ... and layer by layer */
    int n_links;
    struct pare_strs keep;      /* values to look at: pare_plan_value(t->plan[t->at], i) */
    bool reference;             /* plain kernels only */
    const char *const *without; /* for tests, see pare_plan_new_without; or NULL */
    bool tune;                  /* these three as in struct pare_plan_opts */
    const char *choices, *cache;
    struct pare_hooks hooks;

    /* Several processes train together: each has its part of the batch, see pare_dist_batch; with
     * sync_bn BatchNormalization has the moments of all of it, else running moments are means. */
    struct pare_dist *dist; /* or NULL */
    bool sync_bn;
};

/* What a batch came to. */
struct pare_score {
    double loss;           /* mean over the batch */
    int64_t n, top1, top5; /* items, and how many had the right class first, among five */
};

/* Parameters in the layout that kernels read (param_layout.h). */
struct pare_blocked_param {
    bool want, now;           /* from the next forward on; now */
    bool plans;               /* the plans were made for it */
    bool never;               /* plans do not agree */
    bool *param, *ask;        /* which, by parameter; what the next plan is asked for */
    int block, threads;       /* of the plans */
    struct pare_arena *arena; /* while they are in blocks: */
    uint8_t **mask;           /* masks in blocks, by parameter */
    void *room;               /* for the largest parameter */
};

#define PARE_TRAINER_PLANS 2

struct pare_trainer {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_trainer_opts o;
    struct pare_optim_param *param;
    int n_params;
    const char **name; /* of the parameters */
    struct pare_tensor *grad;
    struct pare_named *state; /* what changes but is not learned: running statistics */
    int n_state;
    struct pare_optim *optim;
    struct pare_rng rng;
    struct pare_plan *plan[PARE_TRAINER_PLANS]; /* one for each batch size met */
    struct pare_plan *teacher[PARE_TRAINER_PLANS];
    int64_t batch[PARE_TRAINER_PLANS];
    int n_plans;
    double lr;              /* of the last update */
    int64_t schedule_start; /* the step at which the learning rate's schedule (re)started */
    bool orphan;            /* its hooks were freed, and masks with them: it trains no more */
    bool stale;             /* plans keep other values than they should */
    struct pare_distill_layers layers;
    struct pare_strs keep;                   /* o.keep, then those of the layers */
    int at;                                  /* the plan of the batch at work */
    struct pare_tensor in[PARE_DATA_INPUTS]; /* the inputs of the last forward */
    struct pare_tensor out;                  /* output 0 of the last forward, until it is used */
    struct pare_allreduce together;
    struct pare_blocked_param laid;
    struct pare_score whole; /* of the batch in all processes, after the way back */
    bool stop;               /* a vote to stop; after the way back: somebody has voted so */
};

/* Makes all trainable initializers the model's own, see pare_model_own.  The model (and teacher)
 * must outlive the trainer. */
int pare_trainer_new(struct pare_model *model, const struct pare_trainer_opts *o,
                     struct pare_trainer **trainer, struct pare_err *err);
void pare_trainer_free(struct pare_trainer *t); /* NULL is fine */

/* Forward, loss and backward: t->grad holds the gradients afterwards; of several processes, those
 * of the whole batch, as the score is.  A loss that is not finite is
 * an error that names the node where it began. */
int pare_trainer_gradient(struct pare_trainer *t, const struct pare_tensor *x,
                          const struct pare_tensor *y, struct pare_score *score,
                          struct pare_err *err);

/* The same in pieces.  out, which may be NULL, is output 0 until the next call; a gradient of one's
 * own can be put in pare_plan_out_grad(t->plan[t->at]) instead of a loss. */
int pare_trainer_forward(struct pare_trainer *t, const struct pare_tensor *x,
                         struct pare_tensor *out, struct pare_err *err);
int pare_trainer_loss(struct pare_trainer *t, const struct pare_tensor *y, struct pare_score *score,
                      struct pare_err *err); /* of several processes, this one's part of it */
int pare_trainer_backward(struct pare_trainer *t, struct pare_err *err);

/* From now on parameter `name` is trained in memory of its own, with masked gradients; the model
 * has it times the mask, which may change: then refresh.  value becomes a view of that memory. */
int pare_trainer_mask(struct pare_trainer *t, const char *name, const uint8_t *mask,
                      struct pare_tensor *value, struct pare_err *err);
void pare_trainer_refresh(struct pare_trainer *t);

/* Parameters, gradients, masks and the optimizer's state may be in the layout that kernels read
 * while training is on, until this is called with false: nobody must look at them. */
void pare_trainer_block_params(struct pare_trainer *t, bool on);

/* Keep the values of these names visible in plans made from now on, not those before; after a
 * forward, pare_plan_value(t->plan[t->at], i) is the i-th of them. */
int pare_trainer_watch(struct pare_trainer *t, struct pare_strs names, struct pare_err *err);

/* The parameter's index, or -1: it is frozen, or there is none of the name. */
int pare_trainer_param(const struct pare_trainer *t, const char *name);

int pare_trainer_update(struct pare_trainer *t, double lr, struct pare_err *err);
int pare_trainer_step(struct pare_trainer *t, struct pare_err *err); /* only the hook */

/* Adds to s: how many rows of `out` (N, C, ...) have their class y (N) first or among five. */
void pare_score_add(struct pare_score *s, const struct pare_tensor *out,
                    const struct pare_tensor *y);

#endif
