/* logits.h - softmax over one axis, for losses: tensors as (N, C, inner) with C classes.
 *
 * A tile is a few neighbors along `inner`; if inner is 1 it is one row of C classes.  So there is
 * always an axis along which the compiler can vectorize.
 */
#ifndef PARE_TRAIN_LOGITS_H
#define PARE_TRAIN_LOGITS_H

#include <pare/pare.h>

#define PARE_TILE 64

struct pare_logits {
    int64_t N, C, inner;
};

/* View t with the classes on this axis and everything before it as N. */
struct pare_logits pare_logits(const struct pare_tensor *t, int axis);

/* For each position j < width of a tile at x, whose classes have this stride:
 *     p_c = exp(scale x_c - max[j]) / sum[j],  max[j] = max over c of scale x_c. */
struct pare_softmax {
    float max[PARE_TILE];
    double sum[PARE_TILE];
};
void pare_softmax_tile(const float *x, int64_t C, int64_t stride, int width, float scale,
                       struct pare_softmax *s);

#endif
