/* fold_norm.h - fold BatchNormalization into the weights of the preceding Conv. */
#ifndef PARE_ONNX_FOLD_NORM_H
#define PARE_ONNX_FOLD_NORM_H

#include "edit.h"

/* Make a model that computes the same with *n BatchNormalizations folded into their Conv:
 *     w' = w * g,  b' = beta + (b - mean) * g,   g = gamma / sqrt(variance + epsilon)
 * *folded is NULL if there is none to fold.  It shares the weights of m. */
int pare_model_fold_norm(const struct pare_model *m, struct pare_model **folded, int *n,
                         struct pare_err *err);

/* Is `norm` a BatchNormalization that can be folded: the only consumer of a Conv, whose weights
 * have no other consumer? */
bool pare_norm_folds(const struct pare_graph *g, const struct pare_node *norm);

/* Remove `norm` from a model under edit; its Conv gets the weights w and the bias b. */
struct pare_norm_fold {
    const struct pare_graph *g;
    const struct pare_node *norm;
    const char *made;        /* current name of the norm's output in the edit */
    struct pare_tensor w, b; /* not copied: must live as long as the edit */
    const char *bias;        /* out: name of the Conv's bias */
};
int pare_edit_fold_norm(struct pare_edit *e, struct pare_norm_fold *f, struct pare_err *err);

#endif
