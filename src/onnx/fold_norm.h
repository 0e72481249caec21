/* fold_norm.h - batch normalizations become part of the convolutions before them. */
#ifndef PARE_ONNX_FOLD_NORM_H
#define PARE_ONNX_FOLD_NORM_H

#include "model.h"

/* Another model that computes the same:
 *     w' = w * g,  b' = beta + (b - mean) * g,   g = gamma / sqrt(variance + epsilon)
 * with *n normalizations less; *folded is NULL when there are none.  It refers to memory in the
 * arena, which must outlive it. */
int pare_model_fold_norm(const struct pare_model *m, struct pare_arena *a,
                         struct pare_model **folded, int *n, struct pare_err *err);

#endif
