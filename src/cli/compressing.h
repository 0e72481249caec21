/* compressing.h - what commands that compress share: whose options, judging, training. */
#ifndef PARE_CLI_COMPRESSING_H
#define PARE_CLI_COMPRESSING_H

#include "teach.h"
#include "../compress/run.h"

/* A model judged on the validation set. */
struct pare_judged {
    bool done;
    double loss, top1;
};

/* Does nothing without a validation set. */
int pare_judge(const struct pare_teach *t, const struct pare_model *m, struct pare_judged *to,
               struct pare_err *err);
void pare_judged_print(const char *when, const struct pare_judged *j);
struct json_t *pare_judged_json(const struct pare_judged *j);

/* The options of an algorithm and those of training: `own`, then the others. */
struct pare_own {
    const char *kind; /* "pruner" */
    struct pare_part *part;
    int n;
    const char *set; /* more settings, as text; or NULL */
};
int pare_own_parts(struct pare_arena *a, const struct pare_own *own, struct pare_part **part,
                   int *n, struct pare_err *err);

/* What the algorithm knows goes to the run as text, the rest to training. */
int pare_divide(struct pare_cli *c, const struct pare_own *own, struct pare_teach *t,
                const char **settings, struct pare_err *err);

/* What was given under a name, the last time; NULL: nothing. */
const char *pare_given_text(const struct pare_cli *c, const char *name);

/* NAME-ending.onnx; NULL: no memory. */
const char *pare_default_output(struct pare_arena *a, const char *model, const char *ending);

/* The algorithm's own training and fine-tuning are one run through the loop. */
int pare_compress_train(struct pare_cli *c, struct pare_teach *t, struct pare_run *r, bool *trained,
                        struct pare_err *err);

#endif
