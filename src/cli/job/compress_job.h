/* compress_job.h - shared by prune and quantize: option groups, evaluation, training. */
#ifndef PARE_CLI_JOB_COMPRESS_JOB_H
#define PARE_CLI_JOB_COMPRESS_JOB_H

#include "train_job.h"
#include "../../compress/compression.h"

/* Result of evaluating a model on the validation set. */
struct pare_evaluation {
    bool done;         /* false: there is no validation set */
    double loss, top1; /* top1: fraction of items */
};

/* Does nothing without a validation set. */
int pare_evaluate_job(const struct pare_train_job *t, const struct pare_model *m,
                      struct pare_evaluation *to, struct pare_err *err);
void pare_evaluation_print(const char *when, const struct pare_evaluation *j);
struct json_t *pare_evaluation_json(const struct pare_evaluation *j);

/* Option groups of a pruner or quantizer. */
struct pare_algorithm_options {
    const char *kind; /* "pruner" */
    struct pare_option_group *part;
    int n;
    const char *set; /* more settings as "name=value name=value", or NULL */
};

/* The groups of `own`, then those of training. */
int pare_compress_option_groups(struct pare_arena *a, const struct pare_algorithm_options *own,
                                struct pare_option_group **part, int *n, struct pare_err *err);

/* Split the given options: the algorithm's become *settings, the others go to t->given. */
int pare_split_options(struct pare_cli *c, const struct pare_algorithm_options *own,
                       struct pare_train_job *t, const char **settings, struct pare_err *err);

/* The value of an option of a group; of several, the last one; NULL: not given. */
const char *pare_given_text(const struct pare_cli *c, const char *name);

/* Train for as long as the algorithm needs, plus --epochs of fine-tuning.  *trained is set if there
 * was anything to train. */
int pare_compress_train(struct pare_cli *c, struct pare_train_job *t, struct pare_compression *r,
                        bool *trained, struct pare_err *err);

#endif
