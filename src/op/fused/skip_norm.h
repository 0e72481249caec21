/* skip_norm.h - a residual sum and a normalization over the last axis, of com.microsoft.
 *
 *     s = input + skip + bias,   y = norm(s)
 *
 * skip is (N, S, H), (1, S, H) or (S, H), bias is (H).  Outputs: y, mean, inv_std, s.
 */
#ifndef PARE_OP_FUSED_SKIP_NORM_H
#define PARE_OP_FUSED_SKIP_NORM_H

#include "../inner_node.h"

struct pare_skip_norm {
    const struct pare_op *norm; /* LayerNormalization or SimplifiedLayerNormalization */
    int beta, bias;             /* indices of inputs; beta -1: the operator has none */
};

struct pare_skip_norm_attr {
    double epsilon;
};
extern const struct pare_opt pare_skip_norm_attrs[];

int pare_skip_norm_infer(struct pare_node *n, const struct pare_skip_norm *how,
                         struct pare_err *err);
int pare_skip_norm_forward(struct pare_node *n, const struct pare_skip_norm *how,
                           struct pare_ctx *c, struct pare_err *err);
int pare_skip_norm_backward(struct pare_node *n, const struct pare_skip_norm *how,
                            struct pare_ctx *c, struct pare_err *err);
void pare_skip_norm_ties(const struct pare_node *n, struct pare_ties *t);
void pare_skip_norm_axes(const struct pare_node *n, int *out, int *in);

/* Functions of a descriptor. */
#define PARE_SKIP_NORM_BY(how)                                                         \
    static int infer(struct pare_node *n, struct pare_err *err)                        \
    {                                                                                  \
        return pare_skip_norm_infer(n, &(how), err);                                   \
    }                                                                                  \
                                                                                       \
    static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)  \
    {                                                                                  \
        return pare_skip_norm_forward(n, &(how), c, err);                              \
    }                                                                                  \
                                                                                       \
    static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err) \
    {                                                                                  \
        return pare_skip_norm_backward(n, &(how), c, err);                             \
    }

/* The members that the descriptors share. */
#define PARE_SKIP_NORM_MEMBERS                                                                \
    .domain = "com.microsoft", .since = 1, .types = PARE_T_FLOAT, .min_out = 1, .max_out = 4, \
    .attrs = pare_skip_norm_attrs, .attr_size = sizeof(struct pare_skip_norm_attr),           \
    .infer = infer, .forward = forward, .backward = backward, .ties = pare_skip_norm_ties,    \
    .axes = pare_skip_norm_axes

#endif
