/* matrix.h - matrix products, shared by matrix operators; queries of matrix operators for plans. */
#ifndef PARE_OP_MATRIX_MATRIX_H
#define PARE_OP_MATRIX_MATRIX_H

#include "../op.h"

/* Gemm: y = alpha op(a) op(b) + beta c, where op may transpose. */
struct pare_gemm_attrs {
    double alpha, beta;
    bool ta, tb;
};
/* As the file has them; the attributes of FusedGemm begin with these. */
struct pare_gemm_raw {
    double alpha, beta;
    int64_t transA, transB, broadcast;
};
struct pare_gemm_attrs pare_gemm_get(const struct pare_node *n);

/* The same of a Gemm or MatMul; false: the node is something else. */
bool pare_product_get(const struct pare_node *n, struct pare_gemm_attrs *a);

/* Whether the node is a Gemm or MatMul without factors: x op(w), or x op(w) + c, where op
 * transposes if *tb. */
bool pare_is_plain_product(const struct pare_node *n, bool *tb);

/* The axis of a Softmax, LogSoftmax or Hardmax node, not negative.  With *flatten (before opset
 * 13), all axes from it to the last are one, and the axis may be the rank. */
int pare_softmax_axis(const struct pare_node *n, bool *flatten);

/* An Einsum of up to two operands: the label of each axis, 0 to PARE_EINSUM_LABELS - 1. */
#define PARE_EINSUM_LABELS 60
struct pare_einsum {
    int in[2][PARE_MAX_RANK], out[PARE_MAX_RANK];
};
int pare_einsum_read(const struct pare_node *n, struct pare_einsum *e, struct pare_err *err);

/* y += a b.  Strides are in elements; ys is the row stride of y (M, N). */
struct pare_mm {
    int64_t M, N, K;
    int64_t ai, ak; /* stride between rows of a, between columns of a */
    int64_t bk, bj; /* the same of b */
    int64_t ys;
    const void *a, *b; /* (M, K), (K, N) */
    void *y;
};

/* float32, float64, and integers of 32 and 64 bits, which wrap around. */
void pare_mm(enum pare_dtype dtype, const struct pare_mm *m);
#define PARE_T_MATRIX \
    (PARE_T_FLOATS | PARE_T(PARE_I32) | PARE_T(PARE_U32) | PARE_T(PARE_I64) | PARE_T(PARE_U64))

/* numpy's matmul of two shapes: a vector on the left is a row, on the right a column, and leading
 * axes are broadcast.  Sets y's rank and dimensions, not its type. */
int pare_matmul_shape(struct pare_tensor *y, const struct pare_tensor *a,
                      const struct pare_tensor *b, struct pare_err *err);

/* The same for kernels: M, N, K of each product, and a walk over the batch with the offsets of a's
 * and b's matrices in at[0] and at[1]. */
struct pare_matmul {
    int64_t batch, M, N, K;
    struct pare_walk walk;
};
struct pare_matmul pare_matmul_plan(const struct pare_tensor *a, const struct pare_tensor *b);

/* y = a b, all of one type; y has the shape of pare_matmul_shape. */
void pare_matmul_run(const struct pare_tensor *a, const struct pare_tensor *b,
                     const struct pare_tensor *y);

/* Its gradients: in[0]->grad += gy b', in[1]->grad += a' gy, float32. */
void pare_matmul_backward(const struct pare_node *n);

/* Multiply-accumulates and axis relations of in[0] times in[b]. */
double pare_matmul_macs(const struct pare_tensor *a, const struct pare_tensor *b);
void pare_matmul_ties(const struct pare_node *n, int b, struct pare_ties *t);

#endif
