/* compress_job.h - what commands that compress share: whose options, judging, training. */
#ifndef PARE_CLI_JOB_COMPRESS_JOB_H
#define PARE_CLI_JOB_COMPRESS_JOB_H

#include "train_job.h"
#include "../../compress/compression.h"

/* A model judged on the validation set. */
struct pare_evaluation {
    bool done;
    double loss, top1;
};

/* Does nothing without a validation set. */
int pare_evaluate_job(const struct pare_train_job *t, const struct pare_model *m,
                      struct pare_evaluation *to, struct pare_err *err);
void pare_evaluation_print(const char *when, const struct pare_evaluation *j);
struct json_t *pare_evaluation_json(const struct pare_evaluation *j);

/* The options of an algorithm and those of training: `own`, then the others. */
struct pare_own {
    const char *kind; /* "pruner" */
    struct pare_option_group *part;
    int n;
    const char *set; /* more settings, as text; or NULL */
};
int pare_own_option_groups(struct pare_arena *a, const struct pare_own *own,
                           struct pare_option_group **part, int *n, struct pare_err *err);

/* What the algorithm knows goes to the run as text, the rest to training. */
int pare_divide(struct pare_cli *c, const struct pare_own *own, struct pare_train_job *t,
                const char **settings, struct pare_err *err);

/* What was given under a name, the last time; NULL: nothing. */
const char *pare_given_text(const struct pare_cli *c, const char *name);

/* NAME-ending.onnx; NULL: no memory. */
const char *pare_default_output(struct pare_arena *a, const char *model, const char *ending);

/* The algorithm's own training and fine-tuning are one run through the loop. */
int pare_compress_train(struct pare_cli *c, struct pare_train_job *t, struct pare_compression *r,
                        bool *trained, struct pare_err *err);

#endif
