/* qscale.h - the integers of quantized values: scales, zero points, and checks for export. */
#ifndef PARE_QUANT_QSCALE_H
#define PARE_QUANT_QSCALE_H

#include "group_scales.h"

/* x = scale * (q - zero) + offset, with one scale, one per index of an axis, or one per
 * quantization group along it. */
struct pare_qscale {
    enum pare_dtype dtype; /* stored type of q */
    int64_t qmin, qmax;    /* limits of q, within the type */
    int axis;              /* -1: one scale */
    int64_t n;             /* number of scales */
    struct pare_groups by; /* by.size > 0: scales are per group, and axis is by.axis */
    float *scale;
    int64_t *zero;
    float offset; /* for weights with a zero point that is not an integer, as DoReFa's; otherwise
                   * 0 */
};

/* Reads the scales of a quantization point from the quantizer's buffers; copies are in the arena.
 * Fails if the buffers are missing or hold values that integers cannot have. */
int pare_qscale_of(const struct pare_layer *l, enum pare_quant_site site, struct pare_arena *a,
                   struct pare_qscale *g, struct pare_err *err);

/* The exact integers of the layer's quantized weight; fails if there are none.  g comes from the
 * buffers if they match, else from the values. */
int pare_qweight(const struct pare_layer *l, struct pare_arena *a, struct pare_qscale *g,
                 struct pare_tensor *q, struct pare_err *err);

/* Checks that the quantizer computes what g specifies, with values in and around the range. */
int pare_qscale_probe(struct pare_layer *l, enum pare_quant_site site, const struct pare_qscale *g,
                      struct pare_err *err);

bool pare_qscale_same(const struct pare_qscale *a, const struct pare_qscale *b);

#endif
