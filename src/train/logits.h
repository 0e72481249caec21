/* logits.h - softmax over one axis, for losses: tensors as (N, C, inner), C the classes.
 *
 * A tile is a few neighbours along `inner`; when inner is 1 it is one row of C neighbours.  So
 * there is always an axis along which the compiler can make vectors.
 */
#ifndef PARE_TRAIN_LOGITS_H
#define PARE_TRAIN_LOGITS_H

#include <pare/pare.h>

#define PARE_TILE 64

struct pare_logits {
    int64_t N, C, inner;
};

/* The classes on this axis, everything before it being N. */
struct pare_logits pare_logits(const struct pare_tensor *t, int axis);

/* For each position j < width of a tile at x, whose classes are `stride` apart:
 *     p_c = exp(scale x_c - max[j]) / sum[j],  max[j] = max over c of scale x_c. */
struct pare_softmax {
    float max[PARE_TILE];
    double sum[PARE_TILE];
};
void pare_softmax_tile(const float *x, int64_t C, int64_t stride, int width, float scale,
                       struct pare_softmax *s);

#endif
