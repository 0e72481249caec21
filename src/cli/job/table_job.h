/* table_job.h - pare bench --table: measure the times of a model's layers and write them. */
#ifndef PARE_CLI_JOB_TABLE_JOB_H
#define PARE_CLI_JOB_TABLE_JOB_H

#include "../cli.h"

struct pare_table_job {
    const char *model, *table; /* table: the file to write */
    int64_t batch;             /* 0: 1 */
    int threads;               /* 0: all cores */
    double seconds;            /* at most; 0: 60 */
    uint64_t seed;             /* of the measured models */
    bool json;
};

/* Times of float32 and int8 layers for `pare compress --table`; earlier measurements of the cache
 * are not used. */
int pare_table_job_run(struct pare_cli *c, const struct pare_table_job *j, struct pare_err *err);

#endif
