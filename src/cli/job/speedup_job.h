/* speedup_job.h - shrink a masked model, write it, measure and print the difference. */
#ifndef PARE_CLI_JOB_SPEEDUP_JOB_H
#define PARE_CLI_JOB_SPEEDUP_JOB_H

#include <pare/compress.h>

#include "input.h"
#include "../print/latency.h"
#include "../print/progress_line.h"

struct pare_speedup_job {
    const struct pare_model *masked;
    struct pare_compression *compression; /* that masked it just before; NULL: another command */
    bool dependency_aware;                /* coupled channels were masked together */
    const char *output;
    struct pare_speedup_opts opts;
    double seconds;                  /* for measuring each model; 0: do not measure */
    struct pare_progress_line *line; /* that shows the verification; NULL: none */
    const char *data;                /* name of the set to verify with; NULL: not a set */
    int64_t items;                   /* number of items verified with */

    /* Results. */
    struct pare_speedup_report r;
    double bytes, bytes_left;            /* of the files, before and after */
    double took;                         /* seconds to shrink and verify */
    int runs;                            /* measured, of each model */
    struct pare_latency time, time_left; /* before and after */
    double share;                        /* of the processor that measuring had */
};

/* Shrink the model, write it, measure both. */
int pare_speedup_job_run(struct pare_cli *c, struct pare_speedup_job *s, struct pare_err *err);

int pare_speedup_job_print(struct pare_cli *c, const struct pare_speedup_job *s, bool quiet,
                           struct pare_err *err);
struct json_t *pare_speedup_job_json(const struct pare_speedup_job *s); /* NULL: no memory */

#endif
