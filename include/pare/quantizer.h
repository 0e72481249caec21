/* quantizer.h - write a quantizer; included by <pare/plugin.h>.
 *
 * A quantizer rounds tensors to a few values: a layer's weight, its input, its output.  It returns
 * the quantized tensor as floats.  The library replaces the original by it in each forward pass
 * (fake quantization), passes gradients back through it, and writes integers on export.
 *
 * A quantized layer computes: quantize the input, quantize the weight, apply the operator,
 * quantize the output.  A weight that has a mask is quantized first, then masked.
 *
 * A quantizer is a struct pare_algorithm (<pare/algorithm.h>) that has a struct pare_quantizer.  A
 * built-in one is src/quant/quantize_NAME.c and a line in src/quant/quantizers.def; it may share
 * code with others through the headers of src/quant/, src/base/ and src/tensor/, but everything
 * that it asks of a compression is in these two public headers.
 */
#ifndef PARE_QUANTIZER_H
#define PARE_QUANTIZER_H

#include <pare/algorithm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tensors of a layer that can be quantized ("sites"). */
enum pare_quant_site { PARE_WEIGHT, PARE_INPUT, PARE_OUTPUT };
#define PARE_QUANT_SITES 3

/* How a site is quantized, as the config specifies it: the integers q of
 *     q = clamp(round(x / scale) + zero_point, qmin, qmax),   x' = scale * (q - zero_point). */
struct pare_quant {
    int bits;
    bool has_sign;    /* quant_dtype int: qmin = -2^(bits-1) + 1; uint: qmin = 0 */
    bool symmetric;   /* the zero point is the middle of the range */
    bool per_channel; /* one scale for each output channel of a weight, each channel of a tensor */
    int axis;         /* axis of these channels; -1: one scale for the whole tensor */
    int64_t qmin, qmax;
    int threads; /* that pare_quant_apply() and pare_quant_clip_grad() use */
};

/* NULL: the config does not quantize this site. */
PARE_API const struct pare_quant *pare_layer_quant(const struct pare_layer *l,
                                                   enum pare_quant_site site);

/* Buffers of the layer named "weight_scale", "weight_zero_point", "input_scale", ...: float32,
 * n = 1 or one for each channel.  Export writes the values that they hold. */
PARE_API struct pare_tensor *pare_layer_scale(struct pare_layer *l, enum pare_quant_site site,
                                              int64_t n, struct pare_err *err);
PARE_API struct pare_tensor *pare_layer_zero_point(struct pare_layer *l, enum pare_quant_site site,
                                                   int64_t n, struct pare_err *err);

/* The config key quant_start_step: the training step from which on values are quantized. */
PARE_API int64_t pare_layer_start_step(const struct pare_layer *l);

/* Is the current forward pass one of training?  false: the model is being evaluated. */
PARE_API bool pare_compression_is_training(const struct pare_compression *c);

/* In start(): run N batches through the model for input() and output() to observe; nothing is
 * quantized.  Their y may be x itself; they leave in y what x holds.  With in_parts a batch may
 * arrive in several calls, each with some of its items, which takes less memory. */
PARE_API int pare_compression_observe(struct pare_compression *c, int64_t batches, bool in_parts,
                                      struct pare_err *err);

/* Does another site hold the same values as this one and quantize them in the same way?  Then
 * pare_compression_observe() shows them only at that site: *of and *of_site, where not NULL.  The
 * answer is valid until start() returns. */
PARE_API bool pare_layer_twin(const struct pare_layer *l, enum pare_quant_site site,
                              struct pare_layer **of, enum pare_quant_site *of_site);

/* Scale and zero point of a range.  The range is widened to contain 0; an empty range gets the
 * smallest scale, so nothing is divided by 0. */
PARE_API void pare_quant_fit(const struct pare_quant *q, double lo, double hi, float *scale,
                             float *zero_point);

/* y = x quantized, half to even, with 1 scale and zero point or one for each index of q->axis. */
PARE_API void pare_quant_apply(const struct pare_quant *q, const struct pare_tensor *x,
                               const float *scale, const float *zero_point, struct pare_tensor *y);

/* gx = gy where quantized x is within the range, 0 where it was clamped. */
PARE_API void pare_quant_clip_grad(const struct pare_quant *q, const struct pare_tensor *x,
                                   const float *scale, const float *zero_point,
                                   const struct pare_tensor *gy, struct pare_tensor *gx);

/* Make a float32 buffer of the layer a learned parameter.  Returns its gradient, which backward()
 * adds to; after each step of the model's optimizer the library updates the buffer and zeroes the
 * gradient.  Call it in start().  NULL on error. */
PARE_API struct pare_tensor *pare_layer_learn(struct pare_layer *l, const char *buffer,
                                              struct pare_err *err);

/* ---- the descriptor ------------------------------------------------------------------------ */

/* y = x quantized: same shape, float32, row-major.  y->data may be x->data while observing. */
typedef int pare_quantize_fn(struct pare_layer *l, const struct pare_tensor *x,
                             struct pare_tensor *y, struct pare_err *err);

/* gx = d loss / d x, given gy = d loss / d y and the x of the forward pass. */
typedef int pare_qgrad_fn(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, const struct pare_tensor *gy,
                          struct pare_tensor *gx, struct pare_err *err);

/* Bits of pare_algorithm.flags. */
enum pare_quantizer_flag {
    PARE_LEARNS = 64,     /* call backward() for the model's inputs too, to learn their scales */
    PARE_ANY_ORDER = 128, /* values with one scale are treated alike, so they may arrive in any
                             order, and gx may be gy */
    PARE_TRAINED = 256,   /* it learns in training, and loses accuracy without */
};

struct pare_quantizer {
    uint32_t size;                             /* sizeof(struct pare_quantizer) */
    pare_quantize_fn *weight, *input, *output; /* NULL: a config that asks for it is an error */
    pare_qgrad_fn *backward;                   /* NULL: gx = gy (straight-through) */
    int min_bits, max_bits;                    /* of quant_bits; 0: 1 to 16 */
};

#ifdef __cplusplus
}
#endif

#endif
