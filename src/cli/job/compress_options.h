/* compress_options.h - options of pare compress, and its call with a budget. */
#ifndef PARE_CLI_JOB_COMPRESS_OPTIONS_H
#define PARE_CLI_JOB_COMPRESS_OPTIONS_H

#include "budget_job.h"

struct pare_compress_call {
    const char *preset, *data, *valid, *output, *run;
    int64_t seed, threads;
    double seconds, max_drop;
    bool resume, dry_run, keep_steps, json, quiet;
    struct pare_strs plugin;
    struct pare_budget_job b; /* with --budget */
};

extern const struct pare_opt pare_compress_options[]; /* of struct pare_compress_call */

/* Is it MODEL with a budget, or with nothing but a bound of the accuracy? */
bool pare_compress_has_budget(const struct pare_cli *c);
int pare_compress_run_budget(struct pare_cli *c, struct pare_err *err);

#endif
