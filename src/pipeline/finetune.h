/* finetune.h - data, evaluation and fine-tuning around a compression; for prune, quantize,
 * train. */
#ifndef PARE_PIPELINE_FINETUNE_H
#define PARE_PIPELINE_FINETUNE_H

#include <pare/compress.h>

#include "../train/train_options.h"

struct pare_finetune {
    /* Filled in by the caller. */
    struct pare_arena *arena;
    struct pare_dist *dist;         /* processes that share the work; NULL: one */
    struct pare_model *model;       /* not owned */
    const char *path;               /* the model's name in messages */
    const struct pare_given *given; /* options of training and of data sets */
    int n_given;
    const char *data_name,
        *valid_name;            /* data sets by name; valid_name NULL: see train_options.h */
    struct pare_data *set[2];   /* or data sets that are open: to train, to validate */
    struct pare_model *tutor;   /* a teacher that is open, instead of the option; or NULL */
    pare_progress_fn *progress; /* of evaluations; NULL: none */
    void *user;
    bool observe;       /* data is only observed: there is no trainer, whose weights take memory */
    bool keep_zeros;    /* weights that are 0 stay 0 */
    bool self_teaching; /* without labels, the model's file is the teacher */
    bool quantized;     /* fake-quantized values are trained: use the lower default rate */

    /* Made by pare_finetune_options() and pare_finetune_open(). */
    struct pare_train_options *options; /* NULL: there is no data */
    struct pare_model *teacher;
    struct pare_data *data[2]; /* retained */
    struct pare_trainer *trainer;
    struct pare_train_result result;
    const char *algorithm; /* that trains, and how long by itself, before the fine-tuning */
    int64_t own_epochs, own_steps;
};

/* For the calls of <pare/compress.h>: an arena of its own, data sets and teacher of `t`. */
int pare_finetune_new(struct pare_model *model, const struct pare_tuning *t,
                      struct pare_finetune *f, struct pare_err *err);

/* Is there data? */
bool pare_finetune_has_data(const struct pare_finetune *f);

/* Parse the options; an error here is a mistake in the options. */
int pare_finetune_options(struct pare_finetune *f, struct pare_err *err);

/* Teacher, data sets, trainer.  Close it in any case. */
int pare_finetune_open(struct pare_finetune *f, struct pare_err *err);
void pare_finetune_close(struct pare_finetune *f);

/* The text of an option, the last one given; NULL: not given. */
const char *pare_finetune_given(const struct pare_finetune *f, const char *name);

/* A model on the validation set; m->n is 0 when there is none. */
int pare_finetune_evaluate(const struct pare_finetune *f, const struct pare_model *model,
                           struct pare_metrics *m, struct pare_err *err);

/* An error if the option max_drop is given and the accuracy dropped by more. */
int pare_finetune_check_drop(const struct pare_finetune *f, const struct pare_metrics *before,
                             const struct pare_metrics *after, struct pare_err *err);

/* Steps of an epoch. */
int64_t pare_finetune_epoch_steps(const struct pare_finetune *f);

/* Set the number of epochs: what the algorithm needs, then those of the option "epochs".  *any:
 * there is something to train. */
int pare_finetune_schedule(struct pare_finetune *f, struct pare_compression *c, bool *any,
                           struct pare_err *err);

/* Re-estimate the statistics of batch normalizations from option "recalibrate" batches of the data;
 * *done: batches, 0 if the model has no statistics. */
int pare_finetune_recalibrate(struct pare_finetune *f, pare_progress_fn *progress, void *user,
                              int64_t *done, struct pare_err *err);

/* Train as options->train says; the second reports progress, which may be NULL, and can be
 * canceled. */
int pare_finetune_train(struct pare_finetune *f, struct pare_err *err);
int pare_finetune_train_with(struct pare_finetune *f, pare_progress_fn *progress, void *user,
                             struct pare_err *err);

#endif
