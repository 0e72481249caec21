/* compress_job.h - shared by prune and quantize: option groups, evaluation, training. */
#ifndef PARE_CLI_JOB_COMPRESS_JOB_H
#define PARE_CLI_JOB_COMPRESS_JOB_H

#include "train_job.h"
#include "../../pipeline/pipeline.h"

/* Print nothing, or JSON's null, when the model was not evaluated. */
void pare_metrics_print(const char *when, const struct pare_metrics *m);
struct json_t *pare_metrics_json(const struct pare_metrics *m);

/* Option groups of a pruner or quantizer. */
struct pare_algorithm_options {
    const char *kind; /* "pruner" */
    struct pare_option_group *part;
    int n;
};

/* The groups of `own`, then those of training. */
int pare_compress_option_groups(struct pare_arena *a, const struct pare_algorithm_options *own,
                                struct pare_option_group **part, int *n, struct pare_err *err);

/* Split the given options: those of the algorithm become *given, which has room for one more; the
 * others go to `tune`. */
int pare_split_options(struct pare_cli *c, const struct pare_algorithm_options *own,
                       struct pare_finetune *tune, struct pare_given **given, int *n,
                       struct pare_err *err);

/* A pare_job_train_fn that shows progress and handles Ctrl-C; `user` is a struct
 * pare_train_command. */
struct pare_train_command {
    struct pare_cli *c;
    struct pare_train_job *job;
};
int pare_compress_train(void *user, struct pare_finetune *tune, struct pare_err *err);

#endif
