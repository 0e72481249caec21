/* post_ops.h - match activations and residual Adds that a product or convolution can fuse. */
#ifndef PARE_BACKEND_FUSE_POST_OPS_H
#define PARE_BACKEND_FUSE_POST_OPS_H

#include "../rows/post_ops_apply.h"
#include "../sparse/sparse.h"

#define PARE_MAX_POST 6

/* The nodes after a fusion root that become its post-ops, in order. */
struct pare_post {
    struct pare_post_op op[PARE_MAX_POST];
    int n;
    struct pare_node *node[PARE_MAX_POST]; /* all fused nodes */
    int n_nodes;
    struct pare_value *sum; /* the other operand of a residual Add, or NULL */
};

/* Collect post-ops from x onwards; returns the last value, x itself if nothing can be fused.  With
 * `sum`, one Add whose other operand is already computed is fused, too. */
struct pare_value *pare_post_follow(const struct pare_match *v, struct pare_value *x, bool sum,
                                    struct pare_post *p);

/* Apply all post-ops of a struct pare_post to n floats y; sum: the operand of PARE_POST_SUM. */
void pare_post_apply(const void *post, float *y, const float *sum, int64_t n);

/* The same as the end of a sparse product. */
struct pare_end pare_post_end(const struct pare_post *p);

#endif
