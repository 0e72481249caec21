/* scale_taker.h - a constant before a value that can take a scale for each channel of the value:
 * the scale of a normalization that is written as a product, or the weight of a linear layer. */
#ifndef PARE_QUANT_SCALE_TAKER_H
#define PARE_QUANT_SCALE_TAKER_H

#include "../onnx/model.h"

struct pare_scale_taker {
    const struct pare_value *constant; /* an initializer that no other node reads */
    int axis;                          /* of the channels */
};

/* Multiplying the constant by scales along the axis multiplies the channels of v, which are its
 * last axis, k in number.  Other consumers of v are not looked at.  false: there is no such
 * constant. */
bool pare_find_scale_taker(const struct pare_graph *g, const struct pare_value *v, int64_t k,
                           struct pare_scale_taker *t);

#endif
