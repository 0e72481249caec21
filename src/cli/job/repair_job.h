/* repair_job.h - repair of a masked model with data, for commands that do not train. */
#ifndef PARE_CLI_JOB_REPAIR_JOB_H
#define PARE_CLI_JOB_REPAIR_JOB_H

#include "../cli.h"
#include "../../pipeline/repair_choice.h"
#include "../print/progress_line.h"

struct pare_repair_job {
    const char *data;           /* set, of which the training part is used */
    const char *split;          /* NULL: train */
    const char *original;       /* file of the model before pruning */
    struct pare_model *dense;   /* or the model itself; owned */
    struct pare_data_opts opts; /* options of the set */
    int threads;                /* 0: all cores */
    bool quiet;
    struct pare_progress_line *line;

    struct pare_repair_choice choice; /* out */
};

/* Change the weights of the masked model to what is closest to the original. */
int pare_repair_job_run(struct pare_cli *c, struct pare_repair_job *j, struct pare_model *masked,
                        struct pare_err *err);
void pare_repair_job_close(struct pare_repair_job *j);

#endif
