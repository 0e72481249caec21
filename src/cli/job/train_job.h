/* train_job.h - shared by commands that train: data, file checks, training loop, Ctrl-C. */
#ifndef PARE_CLI_JOB_TRAIN_JOB_H
#define PARE_CLI_JOB_TRAIN_JOB_H

#include "../cli.h"
#include "../print/train_progress.h"
#include "../../train/train_options.h"

/* The command sets the fields down to `quiet` and optionally keep_zeros and looks; the functions
 * below set the rest. */
struct pare_train_job {
    const char *output;                 /* file to write */
    const char *data_name, *valid_name; /* valid_name NULL: see pare_train_options_data() */
    const struct pare_given *given;
    int n_given;
    bool json, quiet;
    bool keep_zeros; /* weights that are 0 stay 0 */
    bool in_recipe;  /* a step of a recipe, which names the checkpoints */
    bool looks; /* data only for calibration: no trainer is made, which would copy the weights */
    struct pare_train_options *setup;
    struct pare_model *model, *teacher; /* model: loaded unless the command has set it */
    struct pare_data *data[2];          /* training set; validation set or NULL */
    struct pare_trainer *trainer;
    struct pare_train_progress progress;
    struct pare_train_result result;
};

/* Parse the options, check files, open model and data, make the trainer.  Close the job even if
 * this fails. */
int pare_train_job_open(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err);

/* Train with the job's options.  Ctrl-C writes a checkpoint and ends the training; then
 * pare_train_job_stopped() returns an error that tells how to resume. */
int pare_train_job_train(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err);
int pare_train_job_stopped(const struct pare_train_job *j, struct pare_err *err);
void pare_train_job_close(struct pare_train_job *j);

#endif
