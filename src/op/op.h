/* op.h - the operator table, and functions shared by operators.
 *
 * Every ONNX operator is one file with one descriptor (operator.h), and a line in ops.def.  Nothing
 * here depends on a particular operator.
 */
#ifndef PARE_OP_OP_H
#define PARE_OP_OP_H

#include "../base/arena.h"
#include "../base/simd.h"
#include "../tensor/tensor.h"
#include "operator.h"

extern const struct pare_op *const pare_ops[]; /* ends with NULL */

/* The descriptors by name, for code that is about one operator: pare_node_is(n, &pare_op_conv). */
#define OP(name) extern const struct pare_op pare_op_##name;
#include "ops.def"
#undef OP

const struct pare_op *pare_find_op(const char *domain, const char *type);

/* Why an operator without a descriptor never runs, and what to do, if it is one of those that are
 * known; else NULL. */
const char *pare_op_refused(const char *domain, const char *type);

/* Whether PyTorch's module `name` is this operator: "Conv#d" is Conv1d, Conv2d and Conv3d. */
bool pare_op_is_torch(const struct pare_op *op, const char *name);

/* ---- for infer() -------------------------------------------------------------------------- */

/* y gets x's type and shape (not its data). */
void pare_like(struct pare_tensor *y, const struct pare_tensor *x);

/* y gets this type and shape; an error when the rank is beyond PARE_MAX_RANK. */
int pare_shape_set(struct pare_tensor *y, enum pare_dtype dtype, int rank, const int64_t *dim,
                   struct pare_err *err);

/* A negative axis counts from the end; outside [-rank, rank) is an error. */
int pare_axis(int64_t axis, int rank, int *out, struct pare_err *err);

/* The dimensions of y from a and b by numpy's broadcasting; dtype is unchanged.  y may be a. */
int pare_broadcast(struct pare_tensor *y, const struct pare_tensor *a, const struct pare_tensor *b,
                   struct pare_err *err);

/* The elements of an int32 or int64 tensor whose contents are known. */
int pare_int_list(const struct pare_tensor *t, int64_t *v, int max, int *n, struct pare_err *err);

/* A number among a node's attributes, by name; 0 if absent.  For kernels, which do not see the
 * operator's own struct. */
double pare_attr(const struct pare_node *n, const char *name);
const char *pare_attr_text(const struct pare_node *n, const char *name); /* "": absent */

/* Whether the node is that operator.  n may be NULL.  Ask for a property of the descriptor instead
 * where more than one operator can have it. */
static inline bool pare_node_is(const struct pare_node *n, const struct pare_op *op)
{
    return n && n->op == op;
}

/* Whether an operator only moves or selects data, 8-bit integers included, in that opset. */
static inline bool pare_moves_int8(const struct pare_op *op, int version)
{
    return op->flags & (PARE_OP_VIEW | PARE_OP_MOVES) && op->int8_since &&
           version >= op->int8_since;
}

/* op->index_map() of output k, starting from the identity; false if it has none. */
bool pare_index_map(const struct pare_node *n, int k, struct pare_index_map *m);

/* infer() functions shared by many operators. */
int pare_infer_same(struct pare_node *n, struct pare_err *err); /* every output is like input 0 */
int pare_infer_broadcast(struct pare_node *n,
                         struct pare_err *err); /* all inputs broadcast; type of input 0 */
int pare_infer_compare(struct pare_node *n, struct pare_err *err); /* the same, bool */

/* ---- for kernels -------------------------------------------------------------------------- */

/* Iterates over an output's elements in order, with the offsets into up to four inputs that are
 * broadcast to it:
 *     struct pare_walk w;
 *     pare_walk_start(&w, &y, inputs, n);
 *     for (int64_t i = 0; i < total; i++, pare_walk_next(&w))
 *         y[i] = a[w.at[0]] + b[w.at[1]]; */
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

/* forward() of operators with map or map2: float32 through it (map2 with broadcasting).  For other
 * types the operator writes its own loop. */
int pare_forward_map(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_forward_map2(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* backward() of operators with dmap or dmap2: float32; gradients of broadcast operands are summed.
 */
int pare_backward_map(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_backward_map2(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* constant_channel() of operators whose results are elements of their inputs, or means of equal
 * elements. */
float pare_constant_channel_same(const struct pare_node *n, int axis, int64_t channel, float x);

/* constant_channel() of sums and norms: a channel of zeros stays one. */
float pare_constant_channel_zero(const struct pare_node *n, int axis, int64_t channel, float x);

/* forward() of views: copy input 0's bytes to output 0. */
int pare_forward_copy(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);
int pare_backward_copy(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* backward() of piecewise constant operators: the gradient is 0. */
int pare_backward_zero(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* ties() of operators that keep every axis: all axes of input i are those of output 0, except
 * broadcast ones. */
void pare_ties_elementwise(const struct pare_node *n, struct pare_ties *t);

/* ties(): the axes of input 0 are those of all outputs, except axes whose bits are set in `but`. */
void pare_ties_except(const struct pare_node *n, unsigned but, struct pare_ties *t);

#endif
