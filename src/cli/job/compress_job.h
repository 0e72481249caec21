/* compress_job.h - shared by prune and quantize: option groups, evaluation, training. */
#ifndef PARE_CLI_JOB_COMPRESS_JOB_H
#define PARE_CLI_JOB_COMPRESS_JOB_H

#include "train_job.h"
#include "../print/progress_line.h"
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

/* What `pare prune` and `pare quantize` have in common; the first member of their jobs. */
struct pare_compress_job {
    struct pare_cli *c;
    struct pare_train_job train;
    struct pare_registry *registry; /* built-in algorithms and those of --plugin */
    struct pare_progress_line line; /* of calibration, evaluation and verification */
};

/* The parts of a command; `j` is its job.  close() is called in any case. */
struct pare_compress_steps {
    int (*open)(struct pare_compress_job *j, struct pare_err *err); /* options, files, data */
    int (*wrap)(struct pare_compress_job *j, struct pare_err *err); /* choose layers: for checks */
    int (*work)(struct pare_compress_job *j, struct pare_err *err); /* wrap, compress, train */
    int (*finish)(struct pare_compress_job *j, struct pare_err *err); /* write, first process */
    int (*print)(struct pare_compress_job *j, struct pare_err *err);  /* first process */
    void (*close)(struct pare_compress_job *j);
};

/* Run the command, or check it only. */
int pare_compress_job_run(struct pare_cli *c, const struct pare_compress_steps *s,
                          struct pare_compress_job *j, struct pare_err *err);
int pare_compress_job_check(struct pare_cli *c, const struct pare_compress_steps *s,
                            struct pare_compress_job *j, struct pare_err *err);

/* Create the registry and load the plugins. */
int pare_compress_job_plugins(struct pare_compress_job *j, const struct pare_strs *plugin,
                              struct pare_err *err);

/* A pare_job_train_fn that shows progress and handles Ctrl-C; `user` is a struct
 * pare_compress_job. */
int pare_compress_train(void *user, struct pare_finetune *tune, struct pare_err *err);

#endif
