/* lsq_grad.h - learned scales: how they begin, their gradients; for lsq and lsq_plus. */
#ifndef PARE_QUANT_LSQ_GRAD_H
#define PARE_QUANT_LSQ_GRAD_H

#include "channel_rows.h"

struct pare_lsq_opts {
    bool fold_bn;
};
extern const struct pare_opt pare_lsq_table[]; /* of those */

/* For each place of a layer: its scale has begun. */
struct pare_lsq_state {
    bool ready[PARE_QUANT_SITES];
};

/* Make the scale of every quantized place, and whatever else `also` names ("" or NULL: nothing), a
 * parameter. */
int pare_lsq_start(struct pare_compression *r, const char *also, struct pare_err *err);

/* Is the scale of a place to begin now?  That of activations with a batch of training; until then
 * they pass. */
bool pare_lsq_begins(struct pare_layer *l, enum pare_quant_site site);

/* S = 2 mean |x| / sqrt(qmax - z) for each channel, where z is there already.  The place is ready
 * then; unless x is all 0 and says nothing, where the scale is the smallest for now. */
int pare_lsq_init(const struct pare_quant_point *p, const struct pare_tensor *x,
                  struct pare_err *err);

/* With v = x / S + z:
 *     gx = gy where qmin <= v <= qmax, else 0
 *     ds += 1 / sqrt((qmax - z) numel) * sum of gy * (round(v) - v),
 *           outside of gy * (qmin - z) or gy * (qmax - z)
 *     dz += sum of gy * -S outside; not asked for when NULL
 * numel counts the numbers of a channel, in all processes. */
struct pare_lsq_grad {
    const struct pare_tensor *gy;
    struct pare_tensor *gx;
    float *ds, *dz;
};
int pare_lsq_backward(const struct pare_quant_point *p, const struct pare_tensor *x,
                      const struct pare_lsq_grad *g, struct pare_err *err);

/* Scales stay above 0. */
int pare_lsq_on_step(struct pare_compression *r, int64_t step, struct pare_err *err);

#endif
