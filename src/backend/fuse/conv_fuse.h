/* conv_fuse.h - match Conv with constant weights, BatchNormalization and post-ops. */
#ifndef PARE_BACKEND_FUSE_CONV_FUSE_H
#define PARE_BACKEND_FUSE_CONV_FUSE_H

#include "post_ops.h"

#include "../../op/nn/window.h"
#include "../rows/post_ops_apply.h"

/* A BatchNormalization after the Conv is folded into weights and bias:
 *     s = gamma / sqrt(var + eps),  w' = s w,  b' = s (b - mean) + beta.
 * A residual Add becomes a sum into the result (in place if the other operand is not read later);
 * activations become post-ops. */
struct pare_conv_fuse {
    struct pare_window win;
    struct pare_node *bn; /* or NULL */
    struct pare_post post;
    struct pare_value *out;
};

/* Match a float32 Conv with constant weights and the nodes to fuse after it. */
bool pare_conv_fuse(const struct pare_match *v, struct pare_node *n, struct pare_conv_fuse *h);

/* The same for ConvTranspose. */
bool pare_conv_transpose_fuse(const struct pare_match *v, struct pare_node *n,
                              struct pare_conv_fuse *h);

/* Fuse the first `keep` post-ops only. */
void pare_conv_fuse_cut(const struct pare_node *n, struct pare_conv_fuse *h, int keep);

/* The number of post-ops before the residual Add. */
int pare_conv_fuse_before_sum(const struct pare_conv_fuse *h);

/* Fill in the step's lists: in[0] is X, in[1] the other operand of a residual Add; false when out
 * of memory. */
bool pare_conv_fuse_step(const struct pare_match *v, struct pare_node *n,
                         const struct pare_conv_fuse *h, int in_block, int out_block,
                         struct pare_step *s);

/* By output channel: the factor of its filter, and its bias. */
int pare_conv_fuse_fold(struct pare_backend *b, const struct pare_node *n,
                        const struct pare_conv_fuse *h, float *scale, float *bias,
                        struct pare_err *err);

/* The post-ops for pare_post_ops_run(), and their number; -1 if it does not implement one of them
 * or if one of them, with `padded`, would change the zeros in the lanes beyond the channels. */
int pare_conv_fuse_vector_ops(const struct pare_conv_fuse *h, bool padded,
                              struct pare_post_op *post);

extern const struct pare_kernel pare_kernel_conv_sparse;

/* If the first post-op is a Relu or Clip: remove it from the list and return its bounds. */
bool pare_post_bounds(struct pare_post_op *post, int *n_post, float *low, float *high);

#endif
