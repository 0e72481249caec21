/* group_scales.h - group-wise weight quantization: one scale per group of inputs of an output
 * channel.
 *
 * A matrix (N, K) or (K, N) is divided along K into groups of `size`; the last may be shorter.
 * Scales and zero points have the matrix's shape with ceil(K / size) in place of K, as in ONNX's
 * blocked DequantizeLinear.
 */
#ifndef PARE_QUANT_GROUP_SCALES_H
#define PARE_QUANT_GROUP_SCALES_H

#include "quant_config.h"

struct pare_groups {
    int axis;          /* axis of K in the weight */
    int64_t size;      /* elements per scale; 0: no groups */
    int64_t dim[2], n; /* shape and number of the scales */
};

/* How to fit a group: integers are in qmin..qmax. */
struct pare_group_fit {
    bool symmetric, mse; /* zero point in the middle; mse: clip to the least squared error, else use
                          * the whole range */
    int64_t qmin, qmax, middle;
    int threads;
};

/* Groups of this size in a layer's weight; fails if the weight is not a matrix. */
int pare_groups(const struct pare_layer *l, int64_t size, struct pare_groups *g,
                struct pare_err *err);

/* The quantizer stores the size in the layer's buffer "weight_group", from which the export reads
 * it. 0: one scale per channel, and the weight is stored packed in as few bits as it has.  -1:
 * there is no such buffer. */
int pare_groups_keep(struct pare_layer *l, int64_t size, struct pare_err *err);
int64_t pare_groups_kept(const struct pare_layer *l);

/* Inputs per scale of a layer: `size`, or if it is -1 the usual number for its bits; 0 if the
 * weight is not a matrix. */
int64_t pare_group_size(const struct pare_layer *l, const struct pare_quant *q, int64_t size);

/* Implements a quantizer's weight(): the nearest levels, in the groups that are kept, or with one
 * scale per channel. */
int pare_weight_by_groups(struct pare_layer *l, bool mse, const struct pare_tensor *x,
                          struct pare_tensor *y, struct pare_err *err);

/* Sets f->qmin and f->qmax to all values that the bits hold; pare_quant omits the smallest signed
 * one. */
void pare_group_range(const struct pare_quant *q, struct pare_group_fit *f);

/* Computes scales and zero points for w, and y = w quantized by them; fit false: uses those
 * given. */
void pare_groups_round(const struct pare_groups *g, const struct pare_group_fit *f,
                       const struct pare_tensor *w, float *scale, float *zero,
                       struct pare_tensor *y, bool fit);

#endif
