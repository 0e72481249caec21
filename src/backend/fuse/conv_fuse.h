/* conv_fuse.h - a convolution with constant weights and what may be fused behind it. */
#ifndef PARE_BACKEND_FUSE_CONV_FUSE_H
#define PARE_BACKEND_FUSE_CONV_FUSE_H

#include "post_ops.h"

#include "../../op/nn/window.h"
#include "../rows/post_ops_apply.h"

/* A BatchNormalization right behind is folded into weights and bias:
 *     s = gamma / sqrt(var + eps),  w' = s w,  b' = s (b - mean) + beta.
 * A residual Add becomes a sum into the result (in place when the other operand dies here),
 * activations become post-operations. */
struct pare_conv_fuse {
    struct pare_window win;
    struct pare_node *bn; /* or NULL */
    struct pare_post post;
    struct pare_value *out;
};

/* Is n a Conv of float32 with constant weights?  Then follow what is behind it. */
bool pare_conv_fuse(const struct pare_match *v, struct pare_node *n, struct pare_conv_fuse *h);

/* The step's lists: in[0] is X, in[1] the other operand of a residual Add; false when out of
 * memory. */
bool pare_conv_fuse_step(const struct pare_match *v, struct pare_node *n,
                         const struct pare_conv_fuse *h, int in_block, int out_block,
                         struct pare_step *s);

/* What each output channel's filter is multiplied by, and its bias. */
int pare_conv_fuse_fold(struct pare_backend *b, const struct pare_node *n,
                        const struct pare_conv_fuse *h, float *scale, float *bias,
                        struct pare_err *err);

/* The post-ops for pare_post_ops_run(), and their number; -1 if it does not implement one of them or
 * if one of them, with `padded`, would change the zeros in the lanes beyond the channels. */
int pare_conv_fuse_vector_ops(const struct pare_conv_fuse *h, bool padded,
                              struct pare_post_op *post);

extern const struct pare_kernel pare_kernel_conv_sparse;

/* Is the first of these no more than bounds?  Then it is taken away. */
bool pare_post_bounds(struct pare_post_op *post, int *n_post, float *low, float *high);

#endif
