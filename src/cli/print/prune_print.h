/* prune_print.h - print the result of pruning. */
#ifndef PARE_CLI_PRINT_PRUNE_PRINT_H
#define PARE_CLI_PRINT_PRUNE_PRINT_H

#include "../job/compress_job.h"
#include "../job/speedup_job.h"
#include "../../pipeline/repair_choice.h"

struct pare_prune_summary {
    struct pare_compression *compression;
    const struct pare_export *files;
    struct pare_metrics before, masked, after; /* masked: before repair and fine-tuning */
    const struct pare_repair_choice *repair;   /* ways that were tried, or NULL */
    bool trained, recalibrated;
    bool tuned;             /* with epochs of its own, after what the pruner needs */
    struct json_t *history; /* training history, or NULL */
    const struct pare_speedup_job *speedup; /* with --speedup, or NULL */
};

/* On stderr: the layers that the pruner cannot handle and that no entry names. */
void pare_skipped_print(const struct pare_compression *c);

int pare_prune_print(const struct pare_prune_summary *v, struct pare_arena *a, bool quiet,
                     struct pare_err *err);
int pare_prune_json(struct pare_cli *c, const struct pare_prune_summary *v, struct pare_err *err);

/* What was tried, in one line, or as JSON (NULL: no memory). */
int pare_repair_print(const struct pare_repair_choice *r, struct pare_arena *a,
                      struct pare_err *err);
struct json_t *pare_repair_json(const struct pare_repair_choice *r);

#endif
