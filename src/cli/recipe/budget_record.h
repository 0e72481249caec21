/* budget_record.h - the run record of a compression to a budget, or of a front. */
#ifndef PARE_CLI_RECIPE_BUDGET_RECORD_H
#define PARE_CLI_RECIPE_BUDGET_RECORD_H

#include "run_record.h"
#include "../job/budget_job.h"
#include "../print/budget_print.h"

struct pare_budget_record {
    const char *run_path; /* the file */
    struct pare_arena *arena;
    struct pare_recipe r;               /* model, threads, seed; without data: nothing is evaluated
                                         * again */
    struct json_t *run, *before, *last; /* the record; outputs of `pare inspect` */
};

int pare_budget_record_open(struct pare_budget_record *b, struct pare_cli *c,
                            const struct pare_budget_job *j, struct pare_err *err);

/* Note version, original and budget in the metadata of a model. */
int pare_budget_record_note(const struct pare_budget_record *b, struct pare_model *m,
                            const char *budget, struct pare_err *err);

/* Add a model that was written, and write the record. */
int pare_budget_record_add(struct pare_budget_record *b, const struct pare_budget_result *x,
                           const char *budget, double seconds, struct pare_err *err);

/* Layers and the last model as the output; write it. */
int pare_budget_record_end(struct pare_budget_record *b, struct pare_err *err);
void pare_budget_record_close(struct pare_budget_record *b);

#endif
