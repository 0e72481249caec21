/* group_scales.h - weights with a scale for each group of inputs of an output channel.
 *
 * A matrix (N, K) or (K, N) is cut along K into groups of `size`, the last perhaps shorter.  Scales
 * and zero points have the matrix's shape with ceil(K / size) in the place of K, as ONNX's blocked
 * DequantizeLinear has them.
 */
#ifndef PARE_QUANT_GROUP_SCALES_H
#define PARE_QUANT_GROUP_SCALES_H

#include "quant_config.h"

struct pare_groups {
    int axis;          /* of K, in the weight */
    int64_t size;      /* elements that share a scale; 0: there are no groups */
    int64_t dim[2], n; /* shape and number of the scales */
};

/* The integers of a group are from qmin to qmax. */
struct pare_group_fit {
    bool symmetric, mse; /* zero point in the middle; least squared error, else the whole range */
    int64_t qmin, qmax, middle;
    int threads;
};

/* Groups of this size in a layer's weight; an error when it has no two axes to cut. */
int pare_groups(const struct pare_layer *l, int64_t size, struct pare_groups *g,
                struct pare_err *err);

/* The layer's quantizer keeps the size in the buffer "weight_group", from which export reads it.
 * With 0 a channel has one scale; but that there is such a number says that the weight is to be
 * stored in as few bits as it has.  -1: there is none. */
int pare_groups_keep(struct pare_layer *l, int64_t size, struct pare_err *err);
int64_t pare_groups_kept(const struct pare_layer *l);

/* What fewer bits than 8 hold, with sign the smallest too, which pare_quant leaves out. */
void pare_group_range(const struct pare_quant *q, struct pare_group_fit *f);

/* Scales and zero points for w, and y = w rounded by them; fit false: by those given. */
void pare_groups_round(const struct pare_groups *g, const struct pare_group_fit *f,
                       const struct pare_tensor *w, float *scale, float *zero,
                       struct pare_tensor *y, bool fit);

#endif
