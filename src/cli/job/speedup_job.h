/* speedup_job.h - a model with masked channels becomes a smaller one: made, written, measured, shown. */
#ifndef PARE_CLI_JOB_SPEEDUP_JOB_H
#define PARE_CLI_JOB_SPEEDUP_JOB_H

#include <pare/compress.h>

#include "input.h"

struct pare_speedup_job {
    const struct pare_model *masked;
    const char *output;
    struct pare_speedup_opts opts;
    double seconds;   /* to measure each model; 0: not at all */
    const char *data; /* verified with items of this set; NULL: with others */
    int64_t items;

    /* What came of it. */
    struct pare_speedup_report r;
    double bytes, bytes_left; /* of the files */
    double took;              /* seconds, without verifying */
    int runs;
    double median, median_left; /* seconds */
};

/* Make the model, write it, measure both in turn. */
int pare_speedup_job_run(struct pare_cli *c, struct pare_speedup_job *s, struct pare_err *err);

int pare_speedup_job_print(struct pare_cli *c, const struct pare_speedup_job *s, bool quiet,
                           struct pare_err *err);
struct json_t *pare_speedup_job_json(const struct pare_speedup_job *s); /* NULL: no memory */

#endif
