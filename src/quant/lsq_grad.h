/* lsq_grad.h - learned scales of lsq and lsq_plus: initialization and gradients. */
#ifndef PARE_QUANT_LSQ_GRAD_H
#define PARE_QUANT_LSQ_GRAD_H

#include "channel_rows.h"

struct pare_lsq_opts {
    bool fold_bn;
};
extern const struct pare_opt pare_lsq_table[]; /* option table of pare_lsq_opts */

/* Per quantization point of a layer: its scale is initialized. */
struct pare_lsq_state {
    bool ready[PARE_QUANT_SITES];
};

/* Makes the scale of every quantization point a parameter, and also the buffer that `also` names
 * ("" or NULL: none). */
int pare_lsq_start(struct pare_compression *r, const char *also, struct pare_err *err);

/* Must the scale of this point be initialized now?  Scales of activations wait for a training
 * batch; until then values pass unchanged. */
bool pare_lsq_begins(struct pare_layer *l, enum pare_quant_site site);

/* S = 2 mean |x| / sqrt(qmax - z) for each channel, where z is set already.  This initializes the
 * point, unless x is all 0: then the scale is the smallest for now. */
int pare_lsq_init(const struct pare_quant_point *p, const struct pare_tensor *x,
                  struct pare_err *err);

/* With v = x / S + z:
 *     gx = gy where qmin <= v <= qmax, else 0
 *     ds += 1 / sqrt((qmax - z) numel) * sum of gy * (round(v) - v),
 *           outside of gy * (qmin - z) or gy * (qmax - z)
 *     dz += sum of gy * -S outside; dz NULL: not computed
 * numel counts the elements of a channel, in all processes. */
struct pare_lsq_grad {
    const struct pare_tensor *gy;
    struct pare_tensor *gx;
    float *ds, *dz;
};
int pare_lsq_backward(const struct pare_quant_point *p, const struct pare_tensor *x,
                      const struct pare_lsq_grad *g, struct pare_err *err);

/* Keeps the scales positive. */
int pare_lsq_on_step(struct pare_compression *r, int64_t step, struct pare_err *err);

#endif
