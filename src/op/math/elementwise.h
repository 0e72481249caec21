/* elementwise.h - loops and descriptors of elementwise operators.
 *
 * Such an operator is a formula, and its file has the formula in these macros, which define the
 * static functions of its descriptor:
 *
 *     PARE_MAP(x < 0 ? 0 : x)                                     map(): float32, vectorized
 *     PARE_UNARY(PARE_LOOP1(PARE_F64, double, double, x < 0 ? 0 : x))     forward(): other types
 *
 *     PARE_DMAP(x > 0 ? g : 0)                                    dmap(): the gradient of x
 *
 *     PARE_MAP2(a + b)                                            map2()
 *     PARE_BINARY(PARE_LOOP2(PARE_F64, double, double, a + b))    forward(), broadcast
 *     PARE_DMAP2(g, g)                                            dmap2(): gradients of a and b
 *
 * In a formula x (or a and b) is an element and n the node.  PARE_LOOP1 and PARE_LOOP2 take the
 * element type of the input, the C types of input and output, and the formula; write one after the
 * other for several types.  Types without a loop use map() or map2().
 *
 * In a gradient's formula g is the gradient of the result, and y the result of an operator with one
 * input.  Where no gradient passes, write 0, not g times 0, which need not be 0.  At kinks and for
 * equal elements the gradient is PyTorch's.
 */
#ifndef PARE_OP_MATH_ELEMENTWISE_H
#define PARE_OP_MATH_ELEMENTWISE_H

#include <math.h>

#include "../../tensor/vmath.h"
#include "../op.h"

/* ---- one input ---------------------------------------------------------------------------- */

/* `omp simd` declares elements independent, so that the loop is vectorized even if x is y. */
#define PARE_MAP(formula) PARE_MAP_WITH(formula, (void)n)

/* The arguments after the formula declare what it reads from the node: read in the loop itself, for
 * example in one branch of a condition, it would prevent vectorization.
 *     PARE_MAP_WITH(x < 0 ? a * x : x, const float a = (float)alpha(n)) */
#define PARE_MAP_WITH(formula, ...)                                                  \
    PARE_SIMD static void map(const struct pare_node *n, const float *xs, float *ys, \
                              int64_t count)                                         \
    {                                                                                \
        __VA_ARGS__;                                                                 \
                                                                                     \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                      \
        {                                                                            \
            const float x = xs[i];                                                   \
                                                                                     \
            ys[i] = formula;                                                         \
        }                                                                            \
    }

/* The same for formulas that call libm, which cannot be vectorized. */
#define PARE_MAP_CALL(formula)                                                            \
    static void map(const struct pare_node *n, const float *xs, float *ys, int64_t count) \
    {                                                                                     \
        (void)n;                                                                          \
        for (int64_t i = 0; i < count; i++) {                                             \
            const float x = xs[i];                                                        \
                                                                                          \
            ys[i] = formula;                                                              \
        }                                                                                 \
    }

/* dmap(): gx += formula, for every element. */
#define PARE_DMAP(formula) PARE_DMAP_WITH(formula, (void)n)

#define PARE_DMAP_WITH(formula, ...)                                                        \
    PARE_SIMD static void dmap(const struct pare_node *n, const float *xs, const float *ys, \
                               const float *gs, float *gxs, int64_t count)                  \
    {                                                                                       \
        __VA_ARGS__;                                                                        \
                                                                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                             \
        {                                                                                   \
            const float x = xs[i], y = ys[i], g = gs[i];                                    \
                                                                                            \
            (void)x, (void)y;                                                               \
            gxs[i] += formula;                                                              \
        }                                                                                   \
    }

/* The same for formulas that call libm. */
#define PARE_DMAP_CALL(formula)                                                                    \
    static void dmap(const struct pare_node *n, const float *xs, const float *ys, const float *gs, \
                     float *gxs, int64_t count)                                                    \
    {                                                                                              \
        (void)n, (void)ys;                                                                         \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const float x = xs[i], g = gs[i];                                                      \
                                                                                                   \
            gxs[i] += formula;                                                                     \
        }                                                                                          \
    }

#define PARE_LOOP1(dtype, in_type, out_type, formula)   \
    case dtype:                                         \
        for (int64_t i = 0; i < count; i++) {           \
            const in_type x = ((const in_type *)in)[i]; \
                                                        \
            ((out_type *)out)[i] = (out_type)(formula); \
        }                                               \
        return 0;

#define PARE_UNARY(...)                                                               \
    static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err) \
    {                                                                                 \
        const void *in = n->in[0]->t.data;                                            \
        void *out = n->out[0]->t.data;                                                \
        int64_t count = pare_numel(&n->in[0]->t);                                     \
                                                                                      \
        switch ((int)n->in[0]->t.dtype) {                                             \
            __VA_ARGS__                                                               \
        default: return pare_forward_map(n, c, err);                                  \
        }                                                                             \
    }

/* ---- two inputs --------------------------------------------------------------------------- */

/* An output as rows: the longest runs along which each broadcast input either advances with the
 * output or is constant.
 *     for (int64_t r = 0; r < rows.n; r++, pare_walk_next(&rows.w))
 *         the row starts at r * rows.len in the output, at rows.w.at[k] in input k */
struct pare_rows {
    struct pare_walk w;
    int64_t n, len;
    int step[4]; /* 1: input k advances along the row; 0: it is constant */
};
void pare_rows_start(struct pare_rows *r, const struct pare_tensor *y,
                     const struct pare_tensor *const *in, int n);

/* y = f(in[0], in[1]) broadcast, float32, by the operator's map2. */
int pare_apply_map2(const struct pare_node *n, const struct pare_tensor *const *in,
                    const struct pare_tensor *y, struct pare_err *err);

/* y = f(...f(f(in 0, in 1), in 2)..., last), where apply computes f; a single input is copied. */
typedef int (*pare_apply2_fn)(const struct pare_node *n, const struct pare_tensor *const *in,
                              const struct pare_tensor *y, struct pare_err *err);
int pare_apply_all(const struct pare_node *n, pare_apply2_fn apply, struct pare_err *err);

/* Broadcast x to y, which has the same type. */
void pare_spread(const struct pare_tensor *y, const struct pare_tensor *x);

#define PARE_MAP2_LOOP(formula, first, second)              \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) \
    {                                                       \
        const float a = first, b = second;                  \
                                                            \
        ys[i] = formula;                                    \
    }

/* A constant operand is read before the loop, because the result may overwrite it. */
#define PARE_MAP2(formula)                                                         \
    PARE_SIMD static void map2(const struct pare_node *n, const float *as, int sa, \
                               const float *bs, int sb, float *ys, int64_t count)  \
    {                                                                              \
        const float a0 = count ? as[0] : 0, b0 = count ? bs[0] : 0;                \
                                                                                   \
        (void)n;                                                                   \
        if (sa && sb) {                                                            \
            PARE_MAP2_LOOP(formula, as[i], bs[i])                                  \
        } else if (sa) {                                                           \
            PARE_MAP2_LOOP(formula, as[i], b0)                                     \
        } else if (sb) {                                                           \
            PARE_MAP2_LOOP(formula, a0, bs[i])                                     \
        } else {                                                                   \
            PARE_MAP2_LOOP(formula, a0, b0)                                        \
        }                                                                          \
    }

/* dmap2(): ga = first formula, gb = second formula, for every element. */
#define PARE_DMAP2(for_a, for_b) PARE_DMAP2_WITH(for_a, for_b, (void)n)

#define PARE_DMAP2_LOOP(out, formula, first, second)        \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) \
    {                                                       \
        const float a = first, b = second, g = gs[i];       \
                                                            \
        (void)a, (void)b;                                   \
        out[i] = formula;                                   \
    }

#define PARE_DMAP2_SIDE(out, formula)               \
    if (!out) {                                     \
    } else if (sa && sb) {                          \
        PARE_DMAP2_LOOP(out, formula, as[i], bs[i]) \
    } else if (sa) {                                \
        PARE_DMAP2_LOOP(out, formula, as[i], b0)    \
    } else if (sb) {                                \
        PARE_DMAP2_LOOP(out, formula, a0, bs[i])    \
    } else {                                        \
        PARE_DMAP2_LOOP(out, formula, a0, b0)       \
    }

#define PARE_DMAP2_WITH(for_a, for_b, ...)                                                        \
    PARE_SIMD static void dmap2(const struct pare_node *n, const float *as, int sa,               \
                                const float *bs, int sb, const float *gs, float *gas, float *gbs, \
                                int64_t count)                                                    \
    {                                                                                             \
        const float a0 = count ? as[0] : 0, b0 = count ? bs[0] : 0;                               \
        __VA_ARGS__;                                                                              \
                                                                                                  \
        PARE_DMAP2_SIDE(gas, for_a)                                                               \
        PARE_DMAP2_SIDE(gbs, for_b)                                                               \
    }

#define PARE_LOOP2(dtype, in_type, out_type, formula)                        \
    case dtype:                                                              \
        for (int64_t r = 0; r < rows.n; r++, pare_walk_next(&rows.w)) {      \
            const in_type *as = (const in_type *)in[0]->data + rows.w.at[0]; \
            const in_type *bs = (const in_type *)in[1]->data + rows.w.at[1]; \
            out_type *ys = (out_type *)y->data + r * len;                    \
                                                                             \
            for (int64_t i = 0; i < len; i++) {                              \
                const in_type a = as[i * sa], b = bs[i * sb];                \
                                                                             \
                ys[i] = (out_type)(formula);                                 \
            }                                                                \
        }                                                                    \
        return 0;

/* apply(): y = f(in[0], in[1]), broadcast. */
#define PARE_APPLY2(...)                                                             \
    static int apply(const struct pare_node *n, const struct pare_tensor *const *in, \
                     const struct pare_tensor *y, struct pare_err *err)              \
    {                                                                                \
        struct pare_rows rows;                                                       \
        int64_t len;                                                                 \
        int sa, sb;                                                                  \
                                                                                     \
        pare_rows_start(&rows, y, in, 2);                                            \
        len = rows.len, sa = rows.step[0], sb = rows.step[1];                        \
        switch ((int)in[0]->dtype) {                                                 \
            __VA_ARGS__                                                              \
        default: return pare_apply_map2(n, in, y, err);                              \
        }                                                                            \
    }

#define PARE_BINARY(...)                                                              \
    PARE_APPLY2(__VA_ARGS__)                                                          \
                                                                                      \
    static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err) \
    {                                                                                 \
        const struct pare_tensor *in[2] = { &n->in[0]->t, &n->in[1]->t };             \
                                                                                      \
        (void)c;                                                                      \
        return apply(n, in, &n->out[0]->t, err);                                      \
    }

/* ---- gradients of operands that were broadcast --------------------------------------- */

/* Add a row of gradients to the operand's gradient: elementwise if it advances along the row (step
 * 1), their sum if it is constant (step 0). */
void pare_add_row(float *grad, int step, const float *row, int64_t len);

/* The reverse of pare_spread: x += y, summed over the axes along which x was broadcast; float32. */
void pare_unspread(const struct pare_tensor *x, const struct pare_tensor *y);

/* Apply the operator's dmap2: gradients of n's inputs, whose values are in[0] and in[1] as float32,
 * in the shapes that are broadcast. */
void pare_apply_dmap2(const struct pare_node *n, const struct pare_tensor *const *in);

/* backward() of sums of any number of inputs. */
int pare_backward_sum(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* backward() of operators that select one of any number of inputs: inputs that equal the output
 * share its gradient equally. */
int pare_backward_choice(struct pare_node *n, struct pare_ctx *c, struct pare_err *err);

/* ---- descriptors -------------------------------------------------------------------------- */

/* Members that the descriptors of a family have in common; .types and other members follow.
 *     const struct pare_op pare_op_acos = {
 *         PARE_UNARY_OP("Acos", 7, "Inverse cosine."),
 *         .types = PARE_T_FLOATS,
 *     };
 */
#define PARE_ELEMENTWISE(op_type, opset, text, inputs)                                      \
    .type = op_type, .doc = text, .since = opset, .in = inputs, .min_out = 1, .max_out = 1, \
    .forward = forward, .ties = pare_ties_elementwise

/* One input, with PARE_MAP and PARE_DMAP. */
#define PARE_UNARY_OP(op_type, opset, text)      \
    PARE_ELEMENTWISE(op_type, opset, text, "T"), \
        .infer = pare_infer_same, .backward = pare_backward_map, .map = map, .dmap = dmap

/* One input, piecewise constant: the gradient is 0. */
#define PARE_STEP_OP(op_type, opset, text)                                                         \
    PARE_ELEMENTWISE(op_type, opset, text, "T"), .infer = pare_infer_same, .flags = PARE_OP_STEPS, \
                                                 .backward = pare_backward_zero, .map = map

/* Two inputs of one type; the result is bool. */
#define PARE_COMPARE_OP(op_type, opset, text)                                  \
    PARE_ELEMENTWISE(op_type, opset, text, "TT"), .infer = pare_infer_compare, \
                                                  .flags = PARE_OP_STEPS

/* Two inputs of one type, which is also the type of the result; no gradient. */
#define PARE_LOGIC_OP(op_type, opset, text, inputs) \
    PARE_ELEMENTWISE(op_type, opset, text, inputs), .infer = pare_infer_broadcast

/* Two inputs, with PARE_MAP2 and PARE_DMAP2. */
#define PARE_ARITHMETIC_OP(op_type, opset, text)                                        \
    PARE_ELEMENTWISE(op_type, opset, text, "TT"),                                       \
        .infer = pare_infer_arithmetic, .attrs = pare_old_broadcast_attrs,              \
        .attr_size = sizeof(struct pare_old_broadcast), .backward = pare_backward_map2, \
        .map2 = map2, .dmap2 = dmap2

/* ---- for formulas ------------------------------------------------------------------------- */

/* A double as an integer: truncated toward zero, clamped to int64, 0 for NaN. */
static inline int64_t pare_whole(double v)
{
    if (!(v > -9.2233720368547758e18))
        return v < 0 ? INT64_MIN : 0;
    return v < 9.2233720368547758e18 ? (int64_t)v : INT64_MAX;
}

/* Attributes of Add, Sub, Mul, Div and Pow before opset 7. */
struct pare_old_broadcast {
    int64_t axis, broadcast;
};
extern const struct pare_opt pare_old_broadcast_attrs[];

/* pare_infer_broadcast for those operators: before opset 7 a smaller input was aligned at `axis`,
 * which is supported if it means the same as broadcasting. */
int pare_infer_arithmetic(struct pare_node *n, struct pare_err *err);

#endif
