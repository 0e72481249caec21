/* quant_config.h - how places of layers are quantized, and the nodes that do it in plans. */
#ifndef PARE_QUANT_QUANT_CONFIG_H
#define PARE_QUANT_QUANT_CONFIG_H

#include "quant_state.h"

/* The keys that every quantizer knows. */
struct pare_quant_conf {
    struct pare_strs types;
    int64_t bits, bits_of[PARE_QUANT_SITES]; /* 0: not given */
    const char *dtype, *dtype_of[PARE_QUANT_SITES];
    const char *scheme, *scheme_of[PARE_QUANT_SITES];
    int64_t start_step;
};

extern const struct pare_opt pare_quant_keys[]; /* of struct pare_quant_conf */

/* l->quant from the keys; what the quantizer cannot do, or the layer has not, is an error. */
int pare_quant_make(struct pare_layer *l, const struct pare_quant_conf *c, struct pare_err *err);

/* Other bits than the config's: the range of integers follows. */
void pare_quant_set_bits(struct pare_quant *q, int bits);

const char *pare_quant_site_name(enum pare_quant_site site); /* "weight", ... */

/* Put a node behind every quantized output and before every quantized input of the model's graph,
 * and take them out again.  The file does not see them. */
int pare_fake_quant_insert(struct pare_compression *r, struct pare_err *err);
void pare_fake_quant_remove(struct pare_compression *r);

/* The nodes only look from here on, or round again; for pare_compression_observe(). */
void pare_fake_quant_look(struct pare_compression *r, bool on);

/* Whose place the node rounds, and which; NULL: it is none of ours. */
struct pare_layer *pare_quant_site_of(const struct pare_node *n, enum pare_quant_site *site);

/* What rounding x to y takes away, added to the layer's sums. */
void pare_quant_noise_add(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, const struct pare_tensor *y);

/* Gradients of rounded weights become those of the weights; learned buffers are updated. */
int pare_quant_weight_grads(struct pare_compression *r, struct pare_err *err);
int pare_quant_merge_learned(struct pare_compression *r, struct pare_err *err); /* over processes */
int pare_quant_optim(struct pare_compression *r, struct pare_err *err); /* makes their optimizer */
int pare_quant_keep(struct pare_compression *r, bool back,
                    struct pare_err *err); /* see pare_hooks */
int pare_quant_learn_step(struct pare_compression *r, struct pare_err *err);

#endif
