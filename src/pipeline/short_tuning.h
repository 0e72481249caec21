/* short_tuning.h - training of a model for a few steps with the options of another training. */
#ifndef PARE_PIPELINE_SHORT_TUNING_H
#define PARE_PIPELINE_SHORT_TUNING_H

#include "finetune.h"

struct pare_short_tuning {
    const struct pare_finetune *of; /* options, processes, teacher */
    struct pare_model *model;       /* changes in place; zeros stay */
    struct pare_data *data;
    int64_t steps;
    bool low_rate;    /* unless a rate is given: that of quantization */
    bool constant;    /* the rate stays what it is at first, instead of the schedule */
    bool recalibrate; /* then re-estimate statistics */
    pare_progress_fn *progress;
    void *user;
};

int pare_short_tuning(const struct pare_short_tuning *s, struct pare_err *err);

/* Options that are about a whole training: its length, its files, what it returns. */
bool pare_tuning_is_of_job(const char *name);

/* The same name, '-' and '_' being the same. */
bool pare_same_option_name(const char *a, const char *b);

#endif
