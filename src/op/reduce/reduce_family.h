/* reduce_family.h - shared by the Reduce operators.
 *
 * An operator declares how elements are folded into an accumulator and how the accumulator becomes
 * the result.  Floats are accumulated in float64; integers in int64, wrapping around, if the result
 * is an integer, else in float64 as well.
 */
#ifndef PARE_OP_REDUCE_REDUCE_FAMILY_H
#define PARE_OP_REDUCE_REDUCE_FAMILY_H

#include "../op.h"

struct pare_reduce {
    struct pare_ints axes;
    int64_t keepdims, noop_with_empty_axes;
};
extern const struct pare_opt pare_reduce_attrs[];

struct pare_reduction {
    double start; /* the result of an empty reduction */
    int64_t start_int;

    /* Fold x[i] into acc[i * step], i < n; step is 0 or 1.  fold_int may be NULL. */
    void (*fold)(double *acc, const double *x, int64_t n, int64_t step);
    void (*fold_int)(int64_t *acc, const int64_t *x, int64_t n, int64_t step);

    /* The result from the accumulator and the number of elements; NULL: the accumulator itself. */
    double (*finish)(double acc, int64_t count);
    int64_t (*finish_int)(int64_t acc, int64_t count);

    bool ordered;  /* selects one of its elements: a result out of range is clamped, not wrapped */
    bool centered; /* the largest x is subtracted from all, and added to the result */
};

/* A row of the input in the backward pass: n elements of x, and their results.  y, gy and aux
 * advance by step, 0 or 1, per element. */
struct pare_reduce_row {
    const float *x, *y, *gy;
    float *gx;
    double *aux[2];         /* results of gather() for that output */
    int64_t n, step, count; /* count: elements of the input per output */
};

struct pare_reduce_slope {
    void (*spread)(const struct pare_reduce_row *r); /* gx[i] += dy/dx[i] gy */
    void (*gather)(const struct pare_reduce_row *r); /* a pass before spread(); NULL: none */
    double start[2];                                 /* initial values of aux */
};

#define PARE_T_REDUCE \
    (PARE_T_FLOATS | PARE_T(PARE_I32) | PARE_T(PARE_U32) | PARE_T(PARE_I64) | PARE_T(PARE_U64))

int pare_reduce_infer(struct pare_node *n, struct pare_err *err);
int pare_reduce_forward(const struct pare_node *n, struct pare_ctx *c,
                        const struct pare_reduction *r, struct pare_err *err);
int pare_reduce_backward(const struct pare_node *n, struct pare_ctx *c,
                         const struct pare_reduce_slope *s, struct pare_err *err);

/* ties(): all axes except the reduced ones; and for reductions to which zeros contribute nothing.
 */
void pare_reduce_ties(const struct pare_node *n, struct pare_ties *t);
void pare_reduce_ties_sum(const struct pare_node *n, struct pare_ties *t);

/* The reduced axes: bit i for axis i.  The contents of an `axes` input must be known. */
int pare_reduce_axes(const struct pare_node *n, unsigned *gone, struct pare_err *err);

int pare_reduce_row_axis(const struct pare_node *n); /* row_axis() */

/* Whether the node is a mean over all axes but the first two: it leaves (N, C) or (N, C, 1...). */
bool pare_is_spatial_mean(const struct pare_node *n);

/* A spread function from an expression of x, y, gy and r. */
#define PARE_SPREAD(name, expr)                                                \
    static void name(const struct pare_reduce_row *r)                          \
    {                                                                          \
        for (int64_t i = 0; i < r->n; i++) {                                   \
            float x = r->x[i], y = r->y[i * r->step], gy = r->gy[i * r->step]; \
                                                                               \
            (void)x, (void)y;                                                  \
            r->gx[i] += (expr);                                                \
        }                                                                      \
    }

/* A fold function from two expressions: f(v) of one element, and join(a, b).  Four accumulators in
 * parallel hide the latency of additions. */
#define PARE_FOLD(name, type, f, join)                                   \
    static void name(type *acc, const type *x, int64_t n, int64_t step)  \
    {                                                                    \
        int64_t i = 0;                                                   \
                                                                         \
        if (!step && n >= 8) {                                           \
            type p[4] = { f(x[0]), f(x[1]), f(x[2]), f(x[3]) };          \
                                                                         \
            for (i = 4; i + 4 <= n; i += 4)                              \
                for (int k = 0; k < 4; k++)                              \
                    p[k] = join(p[k], f(x[i + k]));                      \
            *acc = join(*acc, join(join(p[0], p[1]), join(p[2], p[3]))); \
        }                                                                \
        for (; i < n; i++)                                               \
            acc[i * step] = join(acc[i * step], f(x[i]));                \
    }

/* Expressions for it; integers are computed in uint64 to wrap around. */
#define PARE_FOLD_SELF(v) (v)
#define PARE_FOLD_SQUARE(v) ((v) * (v))
#define PARE_FOLD_ADD(a, b) ((a) + (b))
#define PARE_FOLD_MUL(a, b) ((a) * (b))
#define PARE_FOLD_SQUARE_INT(v) ((int64_t)((uint64_t)(v) * (uint64_t)(v)))
#define PARE_FOLD_ADD_INT(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define PARE_FOLD_MUL_INT(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define PARE_FOLD_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a)) /* propagates NaN */
#define PARE_FOLD_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

/* forward() and backward() of the file's `reduction` and `slope`. */
#define PARE_REDUCE_CALLS                                                              \
    static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)  \
    {                                                                                  \
        return pare_reduce_forward(n, c, &reduction, err);                             \
    }                                                                                  \
                                                                                       \
    static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err) \
    {                                                                                  \
        return pare_reduce_backward(n, c, &slope, err);                                \
    }

/* Members of a descriptor; .types and .ties follow. */
#define PARE_REDUCE_OP(op_type, text)                                                  \
    .type = op_type, .doc = text, .since = 1, .in = "TL?", .min_out = 1, .max_out = 1, \
    .attrs = pare_reduce_attrs, .attr_size = sizeof(struct pare_reduce),               \
    .infer = pare_reduce_infer, .forward = forward, .backward = backward,              \
    .row_axis = pare_reduce_row_axis

#endif
