/* prune_view.h - what people see of a pruning. */
#ifndef PARE_CLI_VIEW_PRUNE_VIEW_H
#define PARE_CLI_VIEW_PRUNE_VIEW_H

#include "../job/compress_job.h"
#include "../job/speedup_job.h"

struct pare_prune_view {
    struct pare_compression *run;
    const struct pare_export *files;
    struct pare_evaluation before, masked, after;
    bool trained;
    struct json_t *history;              /* of the training, or NULL */
    const struct pare_speedup_job *slim; /* the smaller model, or NULL */
};

int pare_prune_print(const struct pare_prune_view *v, struct pare_arena *a, bool quiet,
                     struct pare_err *err);
int pare_prune_json(struct pare_cli *c, const struct pare_prune_view *v, struct pare_err *err);

#endif
