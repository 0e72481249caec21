/* training.h - what is behind <pare/pare.h>'s learner, for those who hang something into it. */
#ifndef PARE_TRAIN_TRAINING_H
#define PARE_TRAIN_TRAINING_H

#include "train_options.h"

struct pare_training {
    struct pare_arena *arena;
    struct pare_train_options *setup;
    struct pare_model *model, *teacher;
    struct pare_data *data[2]; /* to train, to validate or NULL */
    struct pare_trainer *trainer;
    struct pare_loader *loader; /* of a loop of one's own; made when first needed */
    bool (*say)(void *user, const struct pare_epoch_result *r);
    void *user;
    int stop;
};

#endif
