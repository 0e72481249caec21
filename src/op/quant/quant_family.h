/* quant_family.h - shared by quantization operators.
 *
 * A quantized number q represents the float value (q - zero) * scale.  A float value x is quantized
 * to round(x / scale) + zero, rounding half to even, clamped to the type.
 */
#ifndef PARE_OP_QUANT_QUANT_FAMILY_H
#define PARE_OP_QUANT_QUANT_FAMILY_H

#include "../reduce/lanes.h"
#include "../nn/window.h"

#define PARE_T_QUANT                                                                             \
    (PARE_T(PARE_U8) | PARE_T(PARE_I8) | PARE_T(PARE_U16) | PARE_T(PARE_I16) | PARE_T(PARE_U4) | \
     PARE_T(PARE_I4))

/* The lowest and highest number of a type of PARE_T_QUANT. */
void pare_quant_range(enum pare_dtype d, int *lo, int *hi);

/* The scale and zero point of an element: element k of lane (o, i) has number o * so + k / block *
 * sk + i * si. */
struct pare_qgrid {
    struct pare_lanes l;
    int64_t block, so, sk, si;
};

/* From a scale that is a scalar, a list along the axis, or (block > 0) one entry per block along
 * the axis.  zero may be NULL, else it has scale's shape. */
int pare_qgrid(struct pare_qgrid *g, const struct pare_tensor *x, const struct pare_node *n,
               int64_t axis, int64_t block, struct pare_err *err);

/* y[i] = round(x[i] / s[i * step]) + z[i * step], in type d; step is 0 or 1. */
void pare_quantize_values(enum pare_dtype d, void *y, const float *x, int64_t n, const float *s,
                          const float *z, int64_t step);

/* The elements as float32, in scratch; NULL: out of memory. */
float *pare_quant_floats(struct pare_ctx *c, const struct pare_tensor *t, struct pare_err *err);

/* Set out to an int8 or uint8 tensor as int32 minus its zero points, which are broadcast; in
 * scratch. zero may be NULL. */
int pare_quant_centered(struct pare_ctx *c, const struct pare_tensor *t,
                        const struct pare_tensor *zero, struct pare_tensor *out,
                        struct pare_err *err);

/* A view of a scale or zero point that broadcasts to x: one element as a scalar, a list along
 * `axis` of x (the last if -1), other shapes unchanged.  Fails if it does not fit. */
int pare_quant_view(struct pare_tensor *view, const struct pare_tensor *t,
                    const struct pare_tensor *x, int axis, struct pare_err *err);

/* Fail unless the tensor's type is one of types. */
int pare_quant_type(const struct pare_tensor *t, const char *what, uint32_t types,
                    struct pare_err *err);

/* Axis relations of QuantizeLinear and DequantizeLinear: X's axes are Y's, and a list of scales or
 * zero points lies along the axis. */
void pare_quant_ties(const struct pare_node *n, int64_t axis, struct pare_ties *t);

/* An int8 or uint8 result from int32 sums:  y = round(acc * (a * b / s)) + zero, where acc has y's
 * shape, and view[] are a, b, s and zero from pare_quant_view(). */
int pare_requantize(struct pare_ctx *c, const int32_t *acc, const struct pare_tensor *y,
                    const struct pare_tensor *view, struct pare_err *err);

/* int32 convolution of x (N, C, ...) and w (M, C / group, ...) with zero points already subtracted,
 * so that padding is zero. */
void pare_conv_int(const struct pare_window *win, const struct pare_tensor *x,
                   const struct pare_tensor *w, int32_t *y);

/* Multiply-accumulates of a convolution of in[0] with in[w]. */
double pare_conv_int_macs(const struct pare_node *n, int w);

#endif
