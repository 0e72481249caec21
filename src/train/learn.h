/* learn.h - what is behind <pare/pare.h>'s learner, for those who hang something into it. */
#ifndef PARE_TRAIN_LEARN_H
#define PARE_TRAIN_LEARN_H

#include "setup.h"

struct pare_learn {
    struct pare_arena *arena;
    struct pare_setup *setup;
    struct pare_model *model, *teacher;
    struct pare_data *data[2]; /* to train, to validate or NULL */
    struct pare_trainer *trainer;
    struct pare_loader *loader; /* of a loop of one's own; made when first needed */
    bool (*say)(void *user, const struct pare_learned *r);
    void *user;
    int stop;
};

#endif
