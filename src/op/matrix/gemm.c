/* gemm.c - Gemm: y = alpha a b + beta c, the fully connected layer. */
#include "matrix.h"

enum { A, B, C };

static const struct pare_opt gemm_attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct pare_gemm_raw, alpha), "factor of the product", 1,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("beta", offsetof(struct pare_gemm_raw, beta), "factor of C", 1, PARE_NO_MIN,
               PARE_NO_MAX),
    PARE_INT("transA", offsetof(struct pare_gemm_raw, transA), "A is stored transposed", 0,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("transB", offsetof(struct pare_gemm_raw, transB), "B is stored transposed", 0,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("broadcast", offsetof(struct pare_gemm_raw, broadcast),
             "C is broadcast; from opset 7 on it always is", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

struct pare_gemm_attrs pare_gemm_get(const struct pare_node *n)
{
    const struct pare_gemm_raw *g = n->attr;

    return (struct pare_gemm_attrs){ g->alpha, g->beta, g->transA != 0, g->transB != 0 };
}

static const struct pare_value *bias(const struct pare_node *n)
{
    return n->n_in > C ? n->in[C] : NULL;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t;
    char ta[PARE_SHAPE_TEXT], tb[PARE_SHAPE_TEXT];
    struct pare_tensor y = { .rank = 2 }, with;
    int64_t dim[2];

    pare_shape_text(a, ta, sizeof(ta));
    pare_shape_text(b, tb, sizeof(tb));
    if (a->rank != 2 || b->rank != 2)
        return pare_fail(err, PARE_ESHAPE, "A is %s and B is %s, both must have 2 dimensions", ta,
                         tb);
    if (a->dim[!g.ta] != b->dim[g.tb])
        return pare_fail(err, PARE_ESHAPE,
                         "A is %s%s but B is %s%s: %lld columns against %lld rows", ta,
                         g.ta ? " transposed" : "", tb, g.tb ? " transposed" : "",
                         (long long)a->dim[!g.ta], (long long)b->dim[g.tb]);
    y.dim[0] = dim[0] = a->dim[g.ta];
    y.dim[1] = dim[1] = b->dim[!g.tb];
    if (bias(n)) {
        PARE_TRY(pare_broadcast(&with, &y, &bias(n)->t, err));
        if (!pare_same_shape(&with, &y))
            return pare_fail(err, PARE_ESHAPE,
                             "C is %s, which does not broadcast to the result (%lld, %lld)",
                             pare_shape_text(&bias(n)->t, ta, sizeof(ta)), (long long)dim[0],
                             (long long)dim[1]);
    }
    return pare_shape_set(&n->out[0]->t, a->dtype, 2, dim, err);
}

/* y = alpha y + beta c.  Without factors integers stay exact; with factors they are computed in
 * double, truncated and clamped to their type. */
static void finish(const struct pare_node *n, const struct pare_tensor *y)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const struct pare_tensor *c = bias(n) ? &bias(n)->t : NULL;
    bool plain = g.alpha == 1 && (!c || g.beta == 1);
    int64_t count = pare_numel(y);
    struct pare_walk w;

    if (plain && !c)
        return;
    pare_walk_start(&w, y, &c, c ? 1 : 0);
    switch ((int)y->dtype) {
#define FLOATS(d, type)                                                                 \
    case d:                                                                             \
        for (int64_t i = 0; i < count; i++, pare_walk_next(&w))                         \
            ((type *)y->data)[i] = (type)g.alpha * ((type *)y->data)[i] +               \
                                   (c ? (type)g.beta * ((type *)c->data)[w.at[0]] : 0); \
        break;
#define INTS(d, type, wide, lo, hi)                                                  \
    case d:                                                                          \
        for (int64_t i = 0; i < count; i++, pare_walk_next(&w)) {                    \
            type *p = (type *)y->data + i, add = c ? ((type *)c->data)[w.at[0]] : 0; \
            double v = g.alpha * (double)*p + g.beta * (double)add;                  \
                                                                                     \
            if (plain)                                                               \
                *p = (type)((wide)*p + (wide)add);                                   \
            else                                                                     \
                *p = v >= (double)(hi) ? (hi) : v > (double)(lo) ? (type)v : (lo);   \
        }                                                                            \
        break;
        FLOATS(PARE_F32, float)
        FLOATS(PARE_F64, double)
        INTS(PARE_I32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
        INTS(PARE_U32, uint32_t, uint32_t, 0, UINT32_MAX)
        INTS(PARE_I64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
        INTS(PARE_U64, uint64_t, uint64_t, 0, UINT64_MAX)
#undef FLOATS
#undef INTS
    default: break;
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t, *y = &n->out[0]->t;
    struct pare_mm m = {
        .M = y->dim[0],
        .N = y->dim[1],
        .K = a->dim[!g.ta],
        .ai = g.ta ? 1 : a->dim[1],
        .ak = g.ta ? a->dim[1] : 1,
        .bk = g.tb ? 1 : b->dim[1],
        .bj = g.tb ? b->dim[1] : 1,
        .ys = y->dim[1],
        .a = a->data,
        .b = b->data,
        .y = y->data,
    };
    size_t bytes;

    (void)c;
    PARE_TRY(pare_tensor_size(y, NULL, &bytes, err));
    if (!bytes)
        return 0;
    memset(y->data, 0, bytes);
    pare_mm(y->dtype, &m);
    finish(n, y);
    return 0;
}

/* gc += beta gy, summed over broadcast axes of c. */
static void backward_bias(const struct pare_node *n, const float *gy)
{
    const struct pare_tensor *c = &bias(n)->t, *y = &n->out[0]->t;
    float *gc = pare_f32_mut(&bias(n)->grad), beta = (float)pare_gemm_get(n).beta;
    struct pare_walk w;

    pare_walk_start(&w, y, &c, 1);
    for (int64_t i = 0; i < y->dim[0]; i++) {
        float *to = gc + i * w.stride[0][0];
        double sum = 0;

        for (int64_t j = 0; w.stride[0][1] && j < y->dim[1]; j++)
            to[j] += beta * gy[i * y->dim[1] + j];
        for (int64_t j = 0; !w.stride[0][1] && j < y->dim[1]; j++)
            sum += (double)gy[i * y->dim[1] + j];
        if (!w.stride[0][1])
            *to += beta * (float)sum;
    }
}

/* ga = gy b', or b gy' if a is stored transposed; b as it is multiplied. */
static void backward_a(const struct pare_node *n, const float *gy)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t;
    int64_t M = a->dim[g.ta], K = a->dim[!g.ta], N = b->dim[!g.tb];
    int64_t bk = g.tb ? 1 : N, bj = g.tb ? K : 1;
    struct pare_mm plain = {
        .M = M,
        .N = K,
        .K = N,
        .ai = N,
        .ak = 1,
        .bk = bj,
        .bj = bk,
        .ys = K,
        .a = gy,
        .b = b->data,
        .y = n->in[A]->grad.data,
    };
    struct pare_mm turned = {
        .M = K,
        .N = M,
        .K = N,
        .ai = bk,
        .ak = bj,
        .bk = 1,
        .bj = N,
        .ys = M,
        .a = b->data,
        .b = gy,
        .y = n->in[A]->grad.data,
    };

    pare_mm(PARE_F32, g.ta ? &turned : &plain);
}

/* gb = a' gy, or gy' a if b is stored transposed; a as it is multiplied. */
static void backward_b(const struct pare_node *n, const float *gy)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t;
    int64_t M = a->dim[g.ta], K = a->dim[!g.ta], N = b->dim[!g.tb];
    int64_t ai = g.ta ? 1 : K, ak = g.ta ? M : 1;
    struct pare_mm plain = {
        .M = K,
        .N = N,
        .K = M,
        .ai = ak,
        .ak = ai,
        .bk = N,
        .bj = 1,
        .ys = N,
        .a = a->data,
        .b = gy,
        .y = n->in[B]->grad.data,
    };
    struct pare_mm turned = {
        .M = N,
        .N = K,
        .K = M,
        .ai = 1,
        .ak = N,
        .bk = ai,
        .bj = ak,
        .ys = K,
        .a = gy,
        .b = a->data,
        .y = n->in[B]->grad.data,
    };

    pare_mm(PARE_F32, g.tb ? &turned : &plain);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const float *gy = pare_f32(&n->out[0]->grad);
    int64_t count = pare_numel(&n->out[0]->t);

    if (!gy || !count)
        return 0;
    if (bias(n) && bias(n)->grad.data)
        backward_bias(n, gy);
    if (!n->in[A]->grad.data && !n->in[B]->grad.data)
        return 0;
    if (g.alpha != 1) {
        float *scaled = pare_alloc_raw(c->scratch, (size_t)count, sizeof(*scaled));

        if (!scaled)
            return pare_no_memory(err, "for %lld gradients", (long long)count);
        for (int64_t i = 0; i < count; i++)
            scaled[i] = (float)g.alpha * gy[i];
        gy = scaled;
    }
    if (n->in[A]->grad.data)
        backward_a(n, gy);
    if (n->in[B]->grad.data)
        backward_b(n, gy);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const struct pare_value *c = bias(n), *y = n->out[0];

    pare_tie(t, n->in[A], !g.ta, n->in[B], g.tb);
    pare_tie(t, n->in[A], g.ta, y, 0);
    pare_tie(t, n->in[B], !g.tb, y, 1);
    for (int i = 0; c && i < c->t.rank; i++)
        if (c->t.dim[i] == y->t.dim[i + 2 - c->t.rank])
            pare_tie(t, c, i, y, i + 2 - c->t.rank);
}

static double macs(const struct pare_node *n)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t;

    return (double)a->dim[0] * (double)a->dim[1] * (double)b->dim[!g.tb];
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    bool transposed = ((const struct pare_gemm_raw *)n->attr)->transB != 0;

    *out = transposed ? 0 : 1;
    *in = transposed ? 1 : 0;
}

/* The factors of both terms: y = beta (C + alpha / beta A B). */
static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    struct pare_gemm_attrs g = pare_gemm_get(n);

    *l = (struct pare_linear){ .x = A,
                               .w = B,
                               .bias = C,
                               .x_axis = !g.ta,
                               .w_in = g.tb,
                               .w_out = !g.tb,
                               .y_axis = 1,
                               .groups = 1,
                               .scale = (float)(g.alpha / g.beta),
                               .outer = (float)g.beta };
    return g.beta != 0;
}

const struct pare_op pare_op_gemm = {
    .type = "Gemm",
    .doc = "Fully connected layer: alpha A B + beta C.",
    .since = 1,
    .in = "TTT?",
    .types = PARE_T_MATRIX,
    .min_out = 1,
    .max_out = 1,
    .attrs = gemm_attrs,
    .attr_size = sizeof(struct pare_gemm_raw),
    .torch = "Linear",
    .qlinear_type = "QGemm",
    .integer_type = "MatMulInteger",
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(1) | PARE_IN(2),
               .weight = 1,
               .bias = 2,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .macs = macs,
    .axes = axes,
    .linear = linear,
};
