/* training.h - struct pare_training of <pare/pare.h>, for the code that installs hooks. */
#ifndef PARE_TRAIN_TRAINING_H
#define PARE_TRAIN_TRAINING_H

#include "train_options.h"

struct pare_training {
    struct pare_arena *arena;
    struct pare_train_options *setup;
    struct pare_model *model, *teacher;
    struct pare_data *data[2]; /* training and validation; the latter may be NULL */
    struct pare_trainer *trainer;
    struct pare_loader *loader; /* of the caller's own loop; opened when first needed */
    bool (*say)(void *user, const struct pare_epoch_result *r);
    void *user;
    int stop;
};

#endif
