/* fold_norm.h - batch normalizations become part of the convolutions before them. */
#ifndef PARE_ONNX_FOLD_NORM_H
#define PARE_ONNX_FOLD_NORM_H

#include "edit.h"

/* Another model that computes the same:
 *     w' = w * g,  b' = beta + (b - mean) * g,   g = gamma / sqrt(variance + epsilon)
 * with *n normalizations less; *folded is NULL when there are none.  It refers to memory in the
 * arena, which must outlive it. */
int pare_model_fold_norm(const struct pare_model *m, struct pare_model **folded, int *n,
                         struct pare_err *err);

/* Is `norm` a BatchNormalization behind a convolution, which is nobody else's, so that they could
 * become one? */
bool pare_norm_folds(const struct pare_graph *g, const struct pare_node *norm);

/* Take it out of a file whose convolution has these numbers instead. */
struct pare_norm_fold {
    const struct pare_graph *g;
    const struct pare_node *norm;
    const char *made;        /* what the file calls its result by now */
    struct pare_tensor w, b; /* must live as long as the edit */
    const char *bias;        /* out: name of the convolution's bias */
};
int pare_edit_fold_norm(struct pare_edit *e, struct pare_norm_fold *f, struct pare_err *err);

#endif
