/* rms_family.h - shared by RMSNormalization and SimplifiedLayerNormalization.
 *
 *     y = x * inv_std * scale,   inv_std = 1 / sqrt(mean of x^2 + epsilon)
 *
 * over the axes from `axis` on.  The scale broadcasts to these axes.
 */
#ifndef PARE_OP_NN_RMS_FAMILY_H
#define PARE_OP_NN_RMS_FAMILY_H

#include "norm.h"

struct pare_rms {
    int64_t axis, stash_type;
    double epsilon;
};
extern const struct pare_opt pare_rms_attrs[];

int pare_rms_infer(struct pare_node *n, struct pare_err *err);
int pare_rms_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_rms_backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
void pare_rms_axes(const struct pare_node *n, int *out, int *in);
void pare_rms_ties(const struct pare_node *n, struct pare_ties *t);

/* The members that the descriptors share. */
#define PARE_RMS_MEMBERS                                                                 \
    .doc = "Divide each sample by its root mean square over the last axes, then scale.", \
    .in = "TT", .types = PARE_T_FLOAT, .min_out = 1, .attrs = pare_rms_attrs,            \
    .attr_size = sizeof(struct pare_rms), .torch = "RMSNorm",                            \
    .layer = { .params = PARE_IN(1), .weight = 1, .follows = true, .norm = true },       \
    .infer = pare_rms_infer, .forward = pare_rms_forward, .backward = pare_rms_backward, \
    .ties = pare_rms_ties, .axes = pare_rms_axes, .shrink = pare_norm_row_shrink,        \
    .constant_output = pare_norm_row_constant

#endif
