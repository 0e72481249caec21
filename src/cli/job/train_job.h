/* train_job.h - what commands that train share: data, checks, the loop with its view, Ctrl-C. */
#ifndef PARE_CLI_JOB_TRAIN_JOB_H
#define PARE_CLI_JOB_TRAIN_JOB_H

#include "../cli.h"
#include "../view/train_view.h"
#include "../../train/train_options.h"

/* Filled in by the command down to quiet, by the functions below from there on. */
struct pare_train_job {
    const char *output;                 /* what will be written: it must not be what is read */
    const char *data_name, *valid_name; /* valid_name NULL: as pare_train_options_data */
    const struct pare_given *given;
    int n_given;
    bool json, quiet;
    bool keep_zeros; /* weights that are 0 stay so */
    bool in_recipe;  /* checkpoints are the recipe's */
    bool looks;      /* data is only looked at: there is no trainer, whose weights take memory */
    struct pare_train_options *setup;
    struct pare_model *model, *teacher; /* model: loaded unless it is there already */
    struct pare_data *data[2];          /* to train, to validate or NULL */
    struct pare_trainer *trainer;
    struct pare_view_train view;
    struct pare_train_result result;
};

/* Settings, files, model, data, trainer.  Close it in any case. */
int pare_train_job_open(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err);

/* Train as the settings say.  Ctrl-C ends it with a checkpoint: then stopped() is an error. */
int pare_train_job_train(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err);
int pare_train_job_stopped(const struct pare_train_job *j, struct pare_err *err);
void pare_train_job_close(struct pare_train_job *j);

bool pare_same_file(const char *a, const char *b);

/* Can this be written, and is it not the command's model? */
int pare_check_output(struct pare_cli *c, const char *path, struct pare_err *err);

#endif
