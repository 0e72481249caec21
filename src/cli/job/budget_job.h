/* budget_job.h - pare compress --budget: search, write the model, print. */
#ifndef PARE_CLI_JOB_BUDGET_JOB_H
#define PARE_CLI_JOB_BUDGET_JOB_H

#include "../cli.h"

struct pare_budget_job {
    const char *model, *data, *valid; /* valid NULL: the data set's own test part */
    const char *output, *run;         /* NULL: derived from the model's name */
    struct pare_strs budget;
    const char *preset, *preset_budget; /* NULL: none */
    bool labeled_drop;                  /* max_drop holds if there are labels */
    const char *methods, *solver, *table, *sensitivity;
    const char *train;         /* options of the training, "lr=0.001 batch=128"; NULL: none */
    const char *what, *runner; /* --for: pare, ort; NULL: node with onnxruntime-node */
    double max_drop;           /* in points; below 0: no bound */
    int64_t finetune, batch, threads, seed;
    int64_t pareto; /* models of a front; 0: one model */
    double search_time;
    bool json, quiet, dry_run;
    double class_drop, confidence; /* in points, 0: no bound; 0: held-out items decide */
    bool resume;
};

/* c->missed is set if the budget or the bound is missed: the nearest model is written. */
int pare_budget_job_run(struct pare_cli *c, const struct pare_budget_job *j, struct pare_err *err);

#endif
