/* export.h - results of a compression as files; masks of a file into a model. */
#ifndef PARE_COMPRESS_EXPORT_H
#define PARE_COMPRESS_EXPORT_H

#include <pare/compress.h>

#include "../io/npz.h"

/* Weights and running statistics of a model by name: views, or copies in the arena. */
int pare_model_state(const struct pare_model *m, struct pare_arena *a, struct pare_named **list,
                     int *n, struct pare_err *err);

/* An error if a file name has an ending that cannot be written.  Call it before long work. */
int pare_export_check(const struct pare_export *e, struct pare_err *err);

/* A mask that was applied, for reports. */
struct pare_applied {
    const char *layer, *what; /* "conv1", "weight" */
    int64_t n, zeros;         /* elements of the mask; elements that it removes */
};

/* Multiply the masks of a file into the model's weights.  All masks are checked before the first
 * weight is changed. */
int pare_apply_list(struct pare_model *m, const char *path, struct pare_arena *a,
                    struct pare_applied **list, int *n, struct pare_err *err);

#endif
