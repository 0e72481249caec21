/* qgemm.c - QGemm (com.microsoft): quantized fully connected layer.
 *
 *     y = round(((a - a_zero)(b - b_zero) + C) alpha a_scale b_scale / y_scale) + y_zero
 *
 * B's scale and zero point are scalars, or lists with one entry per column of the result.  Without
 * y_scale the result is float32.
 */
#include <math.h>

#include "../matrix/matrix.h"
#include "qlinear_family.h"

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE, Y_ZERO };

struct qgemm {
    double alpha;
    int64_t transA, transB;
};

static const struct pare_opt attrs[] = {
    PARE_FLOAT("alpha", offsetof(struct qgemm, alpha), "factor of the product", 1, PARE_NO_MIN,
               PARE_NO_MAX),
    PARE_INT("transA", offsetof(struct qgemm, transA), "A is stored transposed", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("transB", offsetof(struct qgemm, transB), "B is stored transposed", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_OPT_END
};

static const struct pare_value *input(const struct pare_node *n, int k)
{
    return k < n->n_in ? n->in[k] : NULL;
}

static int fits(const struct pare_node *n, int k, int64_t columns, struct pare_err *err)
{
    const struct pare_tensor *t = &n->in[k]->t;

    if (pare_numel(t) == 1 || (t->rank == 1 && t->dim[0] == columns))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "input %d has %lld elements, expected 1 or %lld", k,
                     (long long)pare_numel(t), (long long)columns);
}

static int check(const struct pare_node *n, int64_t columns, struct pare_err *err)
{
    const struct pare_value *c = input(n, C), *yz = input(n, Y_ZERO);

    PARE_TRY(pare_quant_type(&n->in[B]->t, "B", PARE_T_BYTES, err));
    PARE_TRY(pare_qlinear_single(n, A_SCALE, PARE_F32, err));
    PARE_TRY(pare_qlinear_single(n, A_ZERO, n->in[A]->t.dtype, err));
    PARE_TRY(fits(n, B_SCALE, columns, err));
    PARE_TRY(fits(n, B_ZERO, columns, err));
    PARE_TRY(pare_qlinear_single(n, Y_SCALE, PARE_F32, err));
    PARE_TRY(pare_qlinear_single(n, Y_ZERO, PARE_NONE, err));
    if (yz)
        PARE_TRY(pare_quant_type(&yz->t, "y_zero_point", PARE_T_BYTES, err));
    if (c) {
        PARE_TRY(pare_quant_type(&c->t, "C", PARE_T(PARE_I32), err));
        PARE_TRY(fits(n, C, columns, err));
    }
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct qgemm *g = n->attr;
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t;
    bool ta = g->transA != 0, tb = g->transB != 0;
    char sa[PARE_SHAPE_TEXT], sb[PARE_SHAPE_TEXT];
    enum pare_dtype type = PARE_F32;
    int64_t dim[2];

    if (a->rank != 2 || b->rank != 2 || a->dim[!ta] != b->dim[tb])
        return pare_fail(err, PARE_ESHAPE, "A is %s%s and B is %s%s, which do not fit",
                         pare_shape_text(a, sa, sizeof(sa)), ta ? " transposed" : "",
                         pare_shape_text(b, sb, sizeof(sb)), tb ? " transposed" : "");
    dim[0] = a->dim[ta];
    dim[1] = b->dim[!tb];
    PARE_TRY(check(n, dim[1], err));
    if (input(n, Y_SCALE))
        type = input(n, Y_ZERO) ? n->in[Y_ZERO]->t.dtype : PARE_U8;
    return pare_shape_set(&n->out[0]->t, type, 2, dim, err);
}

static double at(const struct pare_value *v, int64_t i)
{
    return v ? pare_get(&v->t, pare_numel(&v->t) == 1 ? 0 : i) : 0;
}

/* y from the sums of products. */
static void finish(const struct pare_node *n, const int32_t *acc, int64_t M, int64_t N)
{
    const struct qgemm *g = n->attr;
    const struct pare_value *ys = input(n, Y_SCALE);
    float unit = (float)g->alpha * (float)at(n->in[A_SCALE], 0), scale = ys ? (float)at(ys, 0) : 1;
    const struct pare_tensor *y = &n->out[0]->t;
    int lo, hi;

    pare_quant_range(y->dtype, &lo, &hi);
    for (int64_t i = 0; i < M * N; i++) {
        double sum = (double)acc[i] + at(input(n, C), i % N);
        float v = (float)sum * (unit * (float)at(n->in[B_SCALE], i % N) / scale);

        if (!ys) {
            pare_f32_mut(y)[i] = v;
            continue;
        }
        v = rintf(v) + (float)at(input(n, Y_ZERO), 0);
        v = v > (float)lo ? v : (float)lo;
        v = v < (float)hi ? v : (float)hi;
        ((uint8_t *)y->data)[i] = (uint8_t)(int)v; /* same bits as int8 */
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct qgemm *g = n->attr;
    const struct pare_tensor *y = &n->out[0]->t;
    bool ta = g->transA != 0, tb = g->transB != 0;
    struct pare_tensor az, bz, a, b, acc = *y;
    struct pare_mm m = { .M = y->dim[0], .N = y->dim[1], .K = n->in[A]->t.dim[!ta] };

    PARE_TRY(pare_quant_view(&az, &n->in[A_ZERO]->t, &n->in[A]->t, 0, err));
    PARE_TRY(pare_quant_view(&bz, &n->in[B_ZERO]->t, &n->in[B]->t, tb ? 0 : 1, err));
    PARE_TRY(pare_quant_centered(c, &n->in[A]->t, &az, &a, err));
    PARE_TRY(pare_quant_centered(c, &n->in[B]->t, &bz, &b, err));
    acc.dtype = PARE_I32;
    PARE_TRY(pare_tensor_alloc(c->scratch, &acc, err));
    if (!pare_numel(y))
        return 0;
    memset(acc.data, 0, (size_t)pare_numel(y) * sizeof(int32_t));
    m.ai = ta ? 1 : m.K;
    m.ak = ta ? m.M : 1;
    m.bk = tb ? 1 : m.N;
    m.bj = tb ? m.K : 1;
    m.ys = m.N;
    m.a = a.data;
    m.b = b.data;
    m.y = acc.data;
    if (m.K)
        pare_mm(PARE_I32, &m);
    finish(n, acc.data, m.M, m.N);
    return 0;
}

static double macs(const struct pare_node *n)
{
    const struct qgemm *g = n->attr;

    return (double)pare_numel(&n->out[0]->t) * (double)n->in[A]->t.dim[!g->transA];
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    const struct qgemm *g = n->attr;

    *out = g->transB ? 0 : 1;
    *in = !*out;
}

const struct pare_op pare_op_qgemm = {
    .type = "QGemm",
    .doc = "alpha A B + C of quantized matrices; the result is quantized or float32.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TFTUFUA?F?A?",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct qgemm),
    .infer = infer,
    .scales = { .x = A_SCALE, .w = B_SCALE, .y = Y_SCALE },
    .forward = forward,
    .macs = macs,
    .axes = axes,
    .torch = "Linear",
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(B) | PARE_IN(C),
               .weight = B,
               .bias = C,
               .by_default = true },
    .settings = 0x1ff,
};
