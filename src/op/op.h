/* op.h - the operator table, and what operator files share.
 *
 * Every ONNX operator is one file with one descriptor (see operator.h); ops.def lists them.
 * Nothing here knows a particular operator.
 */
#ifndef PARE_OP_OP_H
#define PARE_OP_OP_H

#include "../base/arena.h"
#include "../base/simd.h"
#include "../tensor/tensor.h"
#include "operator.h"

extern const struct pare_op *const pare_ops[]; /* ends with NULL */

const struct pare_op *pare_find_op(const char *domain, const char *type);

/* Whether PyTorch's module `name` is this operator: "Conv#d" is Conv1d, Conv2d and Conv3d. */
bool pare_op_is_torch(const struct pare_op *op, const char *name);

/* ---- what infer functions need ---------------------------------------------- */

/* y gets x's type and shape (not its data). */
void pare_like(struct pare_tensor *y, const struct pare_tensor *x);

/* y gets this type and shape; an error when the rank is beyond PARE_MAX_RANK. */
int pare_shape_set(struct pare_tensor *y, enum pare_dtype dtype, int rank, const int64_t *dim,
                   struct pare_err *err);

/* A negative axis counts from the end; outside [-rank, rank) is an error. */
int pare_axis(int64_t axis, int rank, int *out, struct pare_err *err);

/* The dimensions of y from a and b by numpy's broadcasting; dtype is left alone.  y may be a. */
int pare_broadcast(struct pare_tensor *y, const struct pare_tensor *a, const struct pare_tensor *b,
                   struct pare_err *err);

/* The elements of an int32 or int64 tensor whose contents are known. */
int pare_int_list(const struct pare_tensor *t, int64_t *v, int max, int *n, struct pare_err *err);

/* A number among a node's attributes, by the name in its operator's table; 0 when there is none.
 * For kernels, which do not see the operator's own struct. */
double pare_attr(const struct pare_node *n, const char *name);
const char *pare_attr_text(const struct pare_node *n, const char *name); /* "" when none */

/* Is it that operator of ONNX itself, not another domain's of the same name?  No node is none. */
bool pare_node_is(const struct pare_node *n, const char *type);

/* Infer functions that fit many operators. */
int pare_infer_same(struct pare_node *n, struct pare_err *err); /* every output is like input 0 */
int pare_infer_broadcast(struct pare_node *n,
                         struct pare_err *err); /* all inputs broadcast; type of input 0 */
int pare_infer_compare(struct pare_node *n, struct pare_err *err); /* the same, bool */

/* ---- what kernels need -------------------------------------------------------- */

/* Walks an output's elements in order, and for each the offsets into up to four inputs that are
 * broadcast to it:
 *     struct pare_walk w;
 *     pare_walk_start(&w, &y, inputs, n);
 *     for (int64_t i = 0; i < total; i++, pare_walk_next(&w))
 *         y[i] = a[w.at[0]] + b[w.at[1]];
 */
struct pare_walk {
    int rank, n;
    int64_t dim[PARE_MAX_RANK], idx[PARE_MAX_RANK];
    int64_t stride[4][PARE_MAX_RANK], at[4];
};
void pare_walk_start(struct pare_walk *w, const struct pare_tensor *y,
                     const struct pare_tensor *const *in, int n);
void pare_walk_next(struct pare_walk *w);

/* Row-major strides of a shape, in elements. */
void pare_strides(const struct pare_tensor *t, int64_t *stride);

/* forward() for operators that give map / map2: float32 through it (with broadcasting for map2).
 * For other types the operator writes its own loop. */
int pare_forward_map(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_forward_map2(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* backward() for operators that give dmap / dmap2: float32; gradients of broadcast operands are
 * summed. */
int pare_backward_map(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_backward_map2(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* constant_channel() of operators whose results are elements of their inputs, or means of equal ones. */
float pare_constant_channel_same(const struct pare_node *n, int axis, int64_t channel, float x);

/* Copy input 0's bytes to output 0: the forward() of views. */
int pare_forward_copy(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_backward_copy(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* The backward() of steps: their gradient is zero wherever they have one. */
int pare_backward_zero(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* The tie of operators that keep every axis: all axes of input i are those of output 0, where
 * they are not broadcast. */
void pare_ties_elementwise(const struct pare_node *n, struct pare_ties *t);

/* ties: the axes of input 0 are those of all outputs, but for those whose bits are set. */
void pare_ties_except(const struct pare_node *n, unsigned but, struct pare_ties *t);

#endif
