/* training.h - the training object of <pare/train.h>, for code that adds hooks to it. */
#ifndef PARE_TRAIN_TRAINING_H
#define PARE_TRAIN_TRAINING_H

#include "train_options.h"

struct pare_training {
    struct pare_arena *arena;
    struct pare_train_options *setup;
    struct pare_model *model, *teacher;
    struct pare_data *data[2]; /* training and validation; each may be NULL */
    int64_t epoch_steps;       /* without data, in a loop of the caller; 0: not known */
    struct pare_trainer *trainer;
    struct pare_loader *loader; /* of the caller's own loop; opened when first needed */
    bool (*say)(void *user, const struct pare_epoch_result *r);
    void *user;
    int stop, canceled;
    pare_progress_fn *progress; /* NULL: none */
    void *progress_user;
};

/* Train with `train` and validate with `valid`; each may be NULL.  Checks and retains both. */
int pare_training_use(struct pare_training *l, struct pare_data *train, struct pare_data *valid,
                      struct pare_err *err);

#endif
