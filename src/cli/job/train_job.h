/* train_job.h - shared by commands that train: data, file checks, training loop, Ctrl-C. */
#ifndef PARE_CLI_JOB_TRAIN_JOB_H
#define PARE_CLI_JOB_TRAIN_JOB_H

#include "../cli.h"
#include "../print/train_progress.h"
#include "../../pipeline/finetune.h"

/* The command sets the fields down to `quiet`; the functions below set the rest. */
struct pare_train_job {
    struct pare_finetune *tune; /* the command sets its data, options, model if it has one */
    const char *output;         /* file to write */
    bool json, quiet;
    struct pare_model *model; /* owned; loaded unless tune->model is set */
    bool in_recipe;           /* a step of a recipe, which names the checkpoints */
    struct pare_train_progress progress;
    struct pare_err over; /* the accuracy dropped by more than --max-drop; code 0: it did not */
};

/* Load the model unless tune->model is set, and check that the output does not overwrite it. */
int pare_train_job_load(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err);

/* Parse the options, check files, open model and data, make the trainer.  Close the job even if
 * this fails. */
int pare_train_job_open(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err);

/* Train with the job's options.  Ctrl-C writes a checkpoint and ends the training; then
 * pare_train_job_stopped() returns an error that tells how to resume. */
int pare_train_job_train(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err);
int pare_train_job_stopped(const struct pare_train_job *j, struct pare_err *err);
/* Compare accuracies before the model is written.  A large drop is a warning; `remedy` says what
 * can be done about it.  Above --max-drop, j->output becomes another file, for the best model so
 * far: write that, print, then return pare_train_job_over(). */
int pare_train_job_drop(struct pare_cli *c, struct pare_train_job *j,
                        const struct pare_metrics *before, const struct pare_metrics *after,
                        const char *remedy, struct pare_err *err);
int pare_train_job_over(const struct pare_train_job *j, struct pare_err *err);
void pare_train_job_close(struct pare_train_job *j);

#endif
