/* affine.h - nodes that scale and shift by channel, for rewrites that fold them into layers. */
#ifndef PARE_GRAPH_REWRITE_AFFINE_H
#define PARE_GRAPH_REWRITE_AFFINE_H

#include "rewrite.h"

/* y = x * scale[c] + shift[c] for channel c of n. */
struct pare_affine {
    int64_t n; /* 0: the node computes something else */
    double *scale, *shift;
};

/* The input that the node scales and shifts; -1: it is something else. */
int pare_affine_input(const struct pare_node *n);

/* What node n does to the channels along this axis of its input. */
int pare_affine_read(struct pare_rewriter *r, const struct pare_node *n, int axis,
                     struct pare_affine *a, struct pare_err *err);

/* Is the result of n cut off to integers before another layer reads it?  Then its last bit decides:
 * integers that are exact in n's arithmetic must be exact in what replaces it. */
bool pare_affine_is_cut_off(const struct pare_rewriter *r, const struct pare_node *n);

/* Does any scale differ from 1, or any shift from 0? */
bool pare_affine_scales(const struct pare_affine *a);
bool pare_affine_shifts(const struct pare_affine *a);

/* Is v a float constant that is not made of integers, which remain what kernels and files have? */
bool pare_affine_weight(const struct pare_value *v);

/* Is v, which may be absent, one number per channel? */
bool pare_affine_bias(const struct pare_value *v, int64_t n);

/* Give a Conv, ConvTranspose, Gemm or MatMul an input for its bias.  A MatMul of two matrices
 * becomes a Gemm; *has: it is possible. */
int pare_affine_make_bias(struct pare_rewriter *r, struct pare_node *n, bool *has,
                          struct pare_err *err);

#endif
