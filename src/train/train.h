/* train.h - the training loop: epochs, validation, best model, checkpoints; and evaluation. */
#ifndef PARE_TRAIN_TRAIN_H
#define PARE_TRAIN_TRAIN_H

#include <pare/train.h>

#include "../data/data.h"
#include "metric/goal.h"
#include "schedule.h"
#include "trainer.h"

/* ---- evaluation --------------------------------------------------------------------- */

struct pare_eval {
    double loss; /* mean over all items */
    int64_t n, top1, top5;
    int64_t classes;        /* 0: no class labels */
    int64_t *right, *count; /* by class, (classes) */
    int64_t areas;          /* classes of a segmentation; 0: it is not one */
    int64_t *hit, *either;  /* by class, (areas): positions that labels and output agree on, that
                               either has */
    double seconds;         /* spent running the model */
    struct pare_metrics by; /* values of the task's metrics */
};

struct pare_eval_opts {
    int threads;
    int64_t batch; /* 0: the data set's */
    const struct pare_loss *loss;
    const void *loss_conf;
    const char *task, *metric; /* NULL: derived from labels, outputs and loss */
    const volatile int *stop;  /* if it becomes not 0, stop early; NULL: never */
    struct pare_dist *dist;    /* processes that share the set; NULL: one */
    bool tune;                 /* see struct pare_plan_opts */
    const char *choices, *cache;
    enum pare_precision precision;
    pare_progress_fn *progress; /* called before each batch; NULL: none */
    void *user;
};

/* Run the model over the whole set.  Lists are in the arena.  Several processes share the batches,
 * and all have the result. */
int pare_evaluate_model(const struct pare_model *m, const struct pare_data *data,
                        const struct pare_eval_opts *o, struct pare_arena *a, struct pare_eval *e,
                        struct pare_err *err);

/* pare_evaluate() by several processes; dist NULL: one. */
int pare_evaluate_shared(const struct pare_model *m, const struct pare_data *data,
                         const struct pare_evaluate_opts *opts, struct pare_dist *dist,
                         struct pare_metrics *metrics, struct pare_err *err);

struct pare_metrics pare_eval_metrics(const struct pare_eval *e);

/* The first metric, or the loss if the task has none. */
struct pare_metric_value pare_metrics_main(const struct pare_metrics *m);

/* The first metric that is a fraction of right answers; -1: none. */
double pare_metrics_share(const struct pare_metrics *m);

/* ---- training ----------------------------------------------------------------------- */

/* Progress of the training, for the callbacks. */
struct pare_train_status {
    int64_t epoch, epochs;  /* epoch counts from 0 */
    int64_t batch, batches; /* done in this epoch; in all of it */
    int64_t items;          /* seen in this epoch */
    double loss, top1;      /* means over the epoch so far; top1 in [0, 1], -1: none */
    double lr, seconds;     /* of the last update; of the epoch so far */
};

/* The result of an epoch. */
struct pare_epoch {
    struct pare_train_status train;
    bool validated, best;
    double loss, top1, top5;         /* on the validation set; -1: none */
    struct pare_metric_value metric; /* the one that selects the best epoch */
};

struct pare_train_conf {
    int64_t epochs;
    const char *task, *metric; /* of validation, see struct pare_eval_opts */
    double lr;
    const struct pare_schedule *schedule;
    const void *schedule_conf;
    int64_t max_steps;   /* stop after this many updates; 0: no limit */
    int64_t phase_steps; /* the schedule starts again after this many updates; 0: it does not */
    int64_t warmup;      /* steps; -1: see struct pare_lr */
    double warmup_factor;
    int64_t batch;            /* 0: the data set's */
    int64_t patience;         /* stop after this many epochs without improvement; 0: never */
    int64_t best_from;        /* ignore earlier epochs for patience and keep_best */
    bool keep_best;           /* end with the parameters that validated best */
    const char *checkpoint;   /* file to write, or NULL */
    int64_t checkpoint_steps; /* also write it every this many updates; 0: each epoch only */
    bool only_stopped;        /* write it only when stopped */
    bool resume;              /* resume from `checkpoint` if it exists */
    uint64_t seed;            /* of shuffling and augmentation */
    double ema;               /* decay of the averages that are validated and kept; 0: none */
    double mixup;             /* alpha, see mixup.h; 0: items are not mixed */
    const volatile int *stop; /* if it becomes not 0, write the checkpoint and return */
    void *user;               /* for the callbacks, which may be NULL */
    void (*on_batch)(void *user, const struct pare_train_status *p);
    void (*on_epoch)(void *user, const struct pare_epoch *e);
};

struct pare_train_result {
    int64_t epochs, steps; /* done, including earlier runs */
    double best;           /* value of the metric in the best epoch; NAN: none */
    int64_t best_epoch;    /* -1: none */
    bool stopped;          /* by `stop` */
    int n_params, n_idle;  /* parameters; those that the loss does not depend on */
    const char *idle;      /* the first of these, NULL: none; the model's */
};

/* Train until done.  valid may be NULL.  The model holds the result. */
int pare_train(struct pare_trainer *t, const struct pare_data *train, const struct pare_data *valid,
               const struct pare_train_conf *c, struct pare_train_result *r, struct pare_err *err);

#endif
