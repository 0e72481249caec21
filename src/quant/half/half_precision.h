/* half_precision.h - float16 and bfloat16 models: weights, or weights and computation. */
#ifndef PARE_QUANT_HALF_HALF_PRECISION_H
#define PARE_QUANT_HALF_HALF_PRECISION_H

#include "../../onnx/model.h"

struct pare_half {
    enum pare_dtype type; /* PARE_F16 or PARE_BF16 */
    bool compute;         /* nodes compute in this type, too */

    /* Largest magnitude of each value on data, by name as const double *; NULL: not known.  Nodes
     * that make values beyond the type's range compute in float32. */
    const struct pare_map *peaks;

    /* The result. */
    int64_t weights, elements; /* initializers stored in this type, and their elements */
    int nodes, left;           /* nodes that compute in this type; float nodes that do not */
    int clamped;               /* constants with elements clamped to the type's range */
    const char **kept;         /* layers that stay float32, with the reason; in the arena */
    int n_kept;
};

/* A new model; `m` is not changed.  Inputs and outputs stay float32.  The arena is for h->kept. */
int pare_model_to_half(const struct pare_model *m, struct pare_half *h, struct pare_arena *a,
                       struct pare_model **out, struct pare_err *err);

#endif
