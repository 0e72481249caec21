/* conv_bn_quant.h - quantize a convolution and the BatchNormalization after it as one layer. */
#ifndef PARE_QUANT_CONV_BN_QUANT_H
#define PARE_QUANT_CONV_BN_QUANT_H

#include "quant_config.h"

/* Does a quantizer with these options fold BatchNormalization while it trains? */
bool pare_needs_bn_folding(const struct pare_algorithm *q, const struct pare_given *g, int n);

/* Set pare_layer_quant.norm of all such layers if the quantizer's setting fold_bn is true. */
int pare_conv_bn_find(struct pare_compression *r, struct pare_err *err);

/* Write the effective weight: the quantized product divided by the factors, then masked. */
int pare_conv_bn_round(struct pare_layer *l, struct pare_err *err);

/* Turn the gradient with respect to that weight into the one with respect to l->w, and add to the
 * gradient of the normalization's scale. */
int pare_conv_bn_grad(struct pare_layer *l, struct pare_err *err);

/* w times the normalization's factors; w itself if the layer has no normalization. */
int pare_conv_bn_weight(const struct pare_layer *l, const struct pare_tensor *w,
                        struct pare_arena *a, struct pare_tensor *product, struct pare_err *err);

/* A copy of the layer as it is exported: weight and bias include the normalization. */
int pare_conv_bn_view(const struct pare_layer *l, struct pare_arena *a, struct pare_layer *view,
                      struct pare_err *err);

#endif
