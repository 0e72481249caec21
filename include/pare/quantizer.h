/* quantizer.h - write a quantizer; included by <pare/plugin.h>.
 *
 * A quantizer rounds tensors to a few values: the weight of a layer, what goes into it, what comes
 * out.  It returns the rounded tensor as floats; the core puts it in the place of the other in
 * each forward, sends gradients back through it, and writes integers when the model is exported.
 *
 * A quantized layer computes: input rounded, weight rounded, the operator, output rounded.  With
 * masks: first rounded, then masked.
 */
#ifndef PARE_QUANTIZER_H
#define PARE_QUANTIZER_H

#include <pare/pruner.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The places of a layer. */
enum pare_quant_site { PARE_WEIGHT, PARE_INPUT, PARE_OUTPUT };
#define PARE_QUANT_SITES 3

/* How a place is quantized, as the config says it: the integers q of
 *     q = clamp(round(x / scale) + zero_point, qmin, qmax),   x' = scale * (q - zero_point). */
struct pare_quant {
    int bits;
    bool has_sign;  /* quant_dtype int: qmin = -2^(bits-1) + 1; uint: 0 */
    bool symmetric; /* of quant_scheme: the zero point is the middle */
    bool
        per_channel; /* ... a scale for each output channel of a weight, each channel of a tensor */
    int axis;        /* of the channels; -1: one scale for all */
    int64_t qmin, qmax;
    int threads; /* that pare_quant_apply() and the like may use */
};

/* NULL: the config does not quantize this place. */
PARE_API const struct pare_quant *pare_layer_quant(const struct pare_layer *l,
                                                   enum pare_quant_site site);

/* Named buffers of the layer, "weight_scale", "weight_zero_point", "input_scale", ...: float32, one
 * for all or one for each of n channels.  What they hold is what is exported. */
PARE_API struct pare_tensor *pare_layer_scale(struct pare_layer *l, enum pare_quant_site site,
                                              int64_t n, struct pare_err *err);
PARE_API struct pare_tensor *pare_layer_zero_point(struct pare_layer *l, enum pare_quant_site site,
                                                   int64_t n, struct pare_err *err);

PARE_API int64_t pare_layer_start_step(const struct pare_layer *l); /* quant_start_step */

PARE_API bool
pare_compression_is_training(const struct pare_compression *r); /* else the model is being judged */

/* Run batches through the model in start(), only to see them: pare_compression_forward() in which nothing
 * is rounded.  input() and output() get y that may be x itself, and leave in it what x holds.  With
 * in_parts a batch may be seen in several calls, each with some of its items, in less memory. */
PARE_API int pare_compression_observe(struct pare_compression *r, int64_t batches, bool in_parts,
                                      struct pare_err *err);

/* Do inputs or outputs of another layer have the very numbers of these, and are they quantized in
 * the same way?  Then pare_compression_observe() shows them only there: *of and *of_site, where not NULL.
 * Answers hold until start() ends. */
PARE_API bool pare_layer_twin(const struct pare_layer *l, enum pare_quant_site site,
                              struct pare_layer **of, enum pare_quant_site *of_site);

/* From a range to scale and zero point: the range is widened to hold 0; a range of nothing gets the
 * smallest scale, not a division by 0. */
PARE_API void pare_quant_fit(const struct pare_quant *q, double lo, double hi, float *scale,
                             float *zero_point);

/* y = x rounded as q says, half to even, with the scales and zero points given (1 of each, or one
 * for each index of q->axis). */
PARE_API void pare_quant_apply(const struct pare_quant *q, const struct pare_tensor *x,
                               const float *scale, const float *zero_point, struct pare_tensor *y);

/* gx = gy where x, rounded, is within the range, 0 where it was clamped. */
PARE_API void pare_quant_clip_grad(const struct pare_quant *q, const struct pare_tensor *x,
                                   const float *scale, const float *zero_point,
                                   const struct pare_tensor *gy, struct pare_tensor *gx);

/* Make a float32 buffer of the layer a parameter: it is updated with the model's optimizer at each
 * step, with what is in the tensor returned as its gradient, then zeroed.  NULL on error. */
PARE_API struct pare_tensor *pare_layer_learn(struct pare_layer *l, const char *buffer,
                                              struct pare_err *err);

typedef int pare_quantize_fn(struct pare_layer *l, const struct pare_tensor *x,
                             struct pare_tensor *y, struct pare_err *err);
typedef int pare_qgrad_fn(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, const struct pare_tensor *gy,
                          struct pare_tensor *gx, struct pare_err *err);

struct pare_quantizer {
    /* Name, keys, settings, state, start() and the hooks of training; what is only for pruners
     * (masks, scores, granularity) is not looked at. */
    struct pare_pruner base;

    /* y = x rounded, same shape, row-major.  NULL: this place cannot be quantized; a config that
     * asks for it is refused. */
    pare_quantize_fn *weight, *input, *output;

    /* gx = d loss / d x, given gy = d loss / d y and x as it was before rounding.  NULL: gx = gy,
     * as if nothing had been rounded. */
    pare_qgrad_fn *backward;

    int min_bits, max_bits; /* what quant_bits may be; 0: 1 to 16 */
};

#ifdef __cplusplus
}
#endif

#endif
