/* qscale.h - the integers behind rounded numbers. */
#ifndef PARE_QUANT_QSCALE_H
#define PARE_QUANT_QSCALE_H

#include "group_scales.h"

/* x = scale * (q - zero) + offset, with one scale, one for each index of an axis, or one for each
 * group along it. */
struct pare_qscale {
    enum pare_dtype dtype; /* of q, as it is stored */
    int64_t qmin, qmax;    /* what q may be; within the type */
    int axis;              /* -1: one scale */
    int64_t n;             /* scales */
    struct pare_groups by; /* by.size > 0: they are those of groups, and axis is that of by */
    float *scale;
    int64_t *zero;
    float offset; /* of weights around a zero point that is not whole, as DoReFa's; mostly 0 */
};

/* What the quantizer's buffers say about a place; copies in the arena.  An error when they are not
 * there, not numbers, or not what integers can have. */
int pare_qscale_of(const struct pare_layer *l, enum pare_quant_site site, struct pare_arena *a,
                   struct pare_qscale *g, struct pare_err *err);

/* The integers of the layer's rounded weight, exactly: an error when there are none.  g comes from
 * the buffers where these fit, else from the values themselves. */
int pare_qweight(const struct pare_layer *l, struct pare_arena *a, struct pare_qscale *g,
                 struct pare_tensor *q, struct pare_err *err);

/* Does the quantizer round this place as g says?  Asks it with numbers in and around the range. */
int pare_qscale_probe(struct pare_layer *l, enum pare_quant_site site, const struct pare_qscale *g,
                      struct pare_err *err);

bool pare_qscale_same(const struct pare_qscale *a, const struct pare_qscale *b);

#endif
