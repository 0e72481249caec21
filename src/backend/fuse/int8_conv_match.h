/* int8_conv_match.h - match int8 convolutions in QDQ form and in operator form.
 *
 *     y = round(f (conv(x - x_zero, w) + b)) + y_zero,   f = x_scale w_scale / y_scale by channel
 *
 * with Relu or Clip before the rounding: DequantizeLinear, Conv, Relu, QuantizeLinear as one step,
 * or QLinearConv.  Without a QuantizeLinear the result is float32; the result of ConvInteger is the
 * int32 sum.
 */
#ifndef PARE_BACKEND_FUSE_INT8_CONV_MATCH_H
#define PARE_BACKEND_FUSE_INT8_CONV_MATCH_H

#include "int8_operands.h"

#include "../../op/nn/window.h"

struct pare_int8_conv {
    struct pare_window win;
    struct pare_int8 x;
    struct pare_tensor shape; /* of x as (N, C, ...), with its type; without data */
    int layout;               /* of x.v: channels last, or 1 if x.v is row-major (N, ..., C) */
    struct pare_int8_weight w;
    struct pare_value *bias;  /* float32, or int32 in units of x_scale w_scale; or NULL */
    struct pare_int8_end end; /* end.n is 0 if no node is fused */
    struct pare_value *out;   /* the result, which determines the output type */
};

bool pare_int8_conv(const struct pare_match *v, struct pare_node *n, struct pare_int8_conv *c);

/* Are the sums of all channels at most this large? */
bool pare_int8_conv_below(const struct pare_int8_conv *c, double most);

/* The factor of a channel's sum, and its bias in units of the sum. */
float pare_int8_conv_factor(const struct pare_int8_conv *c, int64_t channel);
double pare_int8_conv_bias(const struct pare_int8_conv *c, int64_t channel);

static inline bool pare_int8_conv_quantized(const struct pare_int8_conv *c)
{
    return c->out->t.dtype == PARE_U8 || c->out->t.dtype == PARE_I8;
}

#endif
