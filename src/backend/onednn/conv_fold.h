/* conv_fold.h - a BatchNormalization behind a convolution as part of its weights. */
#ifndef PARE_BACKEND_ONEDNN_CONV_FOLD_H
#define PARE_BACKEND_ONEDNN_CONV_FOLD_H

#include "../backend.h"

/* Can it be folded into the convolution that makes its input? */
bool pare_conv_folds(const struct pare_node *n);

/* By output channel: the convolution's bias or 0, and 1; with bn, or NULL,
 *     s = gamma / sqrt(var + eps),  scale = s,  bias = s (b - mean) + beta. */
int pare_conv_fold(struct pare_backend *b, const struct pare_node *conv, const struct pare_node *bn,
                   float *scale, float *bias, struct pare_err *err);

#endif
