/* conv_bn_quant.h - a convolution and the BatchNormalization behind it, quantized as one layer. */
#ifndef PARE_QUANT_CONV_BN_QUANT_H
#define PARE_QUANT_CONV_BN_QUANT_H

#include "quant_config.h"

/* Does a quantizer with these options fold BatchNormalization while it trains? */
bool pare_needs_bn_folding(const struct pare_algorithm *q, const struct pare_given *g, int n);

/* Sets pare_layer.norm, where the quantizer's setting fold_bn says so. */
int pare_conv_bn_find(struct pare_compression *r, struct pare_err *err);

/* The model's weight becomes the rounded product, divided by the factors again, then masked. */
int pare_conv_bn_round(struct pare_layer *l, struct pare_err *err);

/* The gradient by that weight becomes the one by l->w; that of the normalization's scale gets its
 * part. */
int pare_conv_bn_grad(struct pare_layer *l, struct pare_err *err);

/* The weight times the normalization's factors; without a normalization the weight itself. */
int pare_conv_bn_weight(const struct pare_layer *l, const struct pare_tensor *w,
                        struct pare_arena *a, struct pare_tensor *product, struct pare_err *err);

/* A copy of the layer as it is in a file: its weight and bias are those of the product. */
int pare_conv_bn_view(const struct pare_layer *l, struct pare_arena *a, struct pare_layer *view,
                      struct pare_err *err);

#endif
