/* post_ops.h - what can be fused behind a oneDNN primitive. */
#ifndef PARE_BACKEND_FUSE_POST_OPS_H
#define PARE_BACKEND_FUSE_POST_OPS_H

#include "../onednn/onednn.h"

#include "../sparse/sparse.h"

#define PARE_MAX_POST 6

/* The nodes behind a head that become post-operations of its primitive, in order. */
struct pare_post {
    struct pare_post_op {
        bool sum;
        dnnl_alg_kind_t alg;
        float alpha, beta;
    } op[PARE_MAX_POST];
    int n;
    struct pare_node *node[2 * PARE_MAX_POST]; /* all that are fused */
    int n_nodes;
    struct pare_value *sum; /* the other operand of a residual Add, or NULL */
};

/* Follow x as far as it can be fused; returns the last value.  With `sum`, one Add with a value
 * that is there already is taken as well. */
struct pare_value *pare_post_follow(const struct pare_match *v, struct pare_value *x, bool sum,
                                    struct pare_post *p);

/* A primitive attribute with these post-operations; the caller destroys it. */
bool pare_post_attr(const struct pare_post *p, dnnl_primitive_attr_t *attr);

/* The same by loops of our own: y, n numbers, and those that are added to it. */
void pare_post_apply(const void *post, float *y, const float *sum, int64_t n);
struct pare_end pare_post_end(const struct pare_post *p);

#endif
