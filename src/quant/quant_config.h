/* quant_config.h - how sites are quantized; fake-quant nodes; gradients and learned scales. */
#ifndef PARE_QUANT_QUANT_CONFIG_H
#define PARE_QUANT_QUANT_CONFIG_H

#include "quant_method.h"
#include "quant_state.h"

/* The config_list keys of all quantizers. */
struct pare_quant_conf {
    struct pare_strs types;
    int64_t bits, bits_of[PARE_QUANT_SITES]; /* 0: not specified */
    const char *dtype, *dtype_of[PARE_QUANT_SITES];
    const char *scheme, *scheme_of[PARE_QUANT_SITES];
    int64_t start_step;
};

/* Fill l->quant from the keys.  An error if the quantizer does not support a site or its bits, or
 * the layer does not have the site. */
int pare_quant_make(struct pare_layer *l, const struct pare_quant_conf *c, struct pare_err *err);

/* Set other bits than the config's, and the range of integers that follows from them. */
void pare_quant_set_bits(struct pare_quant *q, int bits);

/* ---- fake-quant nodes (fake_quant.c) -------------------------------------------------------- */

/* Insert a node after each quantized output and before each quantized input of the model's graph,
 * and remove them.  The ONNX messages of the model stay as they are. */
int pare_fake_quant_insert(struct pare_compression *r, struct pare_err *err);
void pare_fake_quant_remove(struct pare_compression *r);

/* Observe: the nodes pass values on unchanged.  See pare_compression_observe(). */
void pare_fake_quant_observe(struct pare_compression *r, bool on);

/* The layer and site of a fake-quant node; NULL: another node. */
struct pare_layer *pare_quant_site_of(const struct pare_node *n, enum pare_quant_site *site);

/* Add signal and noise of quantizing x to y to the layer's sums. */
void pare_quant_noise_add(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, const struct pare_tensor *y);

/* ---- training (learned_scales.c) ------------------------------------------------------------ */

/* Turn gradients with respect to quantized weights into gradients with respect to the weights. */
int pare_quant_weight_grads(struct pare_compression *r, struct pare_err *err);

/* Sum the gradients of learned buffers over all processes. */
int pare_quant_merge_learned(struct pare_compression *r, struct pare_err *err);

/* Create the optimizer of learned buffers; one step of it. */
int pare_quant_optim(struct pare_compression *r, struct pare_err *err);
int pare_quant_learn_step(struct pare_compression *r, struct pare_err *err);

/* pare_hooks.keep: keep buffers with the best parameters so far; back: restore them. */
int pare_quant_keep(struct pare_compression *r, bool back, struct pare_err *err);

#endif
