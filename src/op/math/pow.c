/* pow.c - Pow: y = a^b, broadcast; the exponent may have another type. */
#include "elementwise.h"

static bool is_real(enum pare_dtype d)
{
    return d == PARE_F32 || d == PARE_F64 || d == PARE_F16 || d == PARE_BF16;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    enum pare_dtype d = n->in[1]->t.dtype;

    if (!is_real(d) && !(PARE_T(d) & PARE_T_INTS))
        return pare_fail(err, PARE_EUNSUPPORTED, "an exponent of type %s is not supported",
                         pare_dtype_name(d));
    return pare_infer_arithmetic(n, err);
}

/* Fast paths for squares and cubes, the most frequent exponents. */
PARE_SIMD static void map2(const struct pare_node *n, const float *a, int sa, const float *b,
                           int sb, float *y, int64_t count)
{
    const float e = count ? b[0] : 0;

    (void)n;
    if (sa && !sb && e == 2) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            y[i] = a[i] * a[i];
    } else if (sa && !sb && e == 3) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            y[i] = a[i] * a[i] * a[i];
    } else {
        for (int64_t i = 0; i < count; i++)
            y[i] = powf(a[i * sa], b[i * sb]);
    }
}

/* b a^(b-1), which is 0 where b is, and a^b log(a).  Below zero powers with exponents near b are
 * not real, and at zero the slope is 0 or infinite: no gradient for the exponent there. */
PARE_SIMD static void dmap2(const struct pare_node *n, const float *a, int sa, const float *b,
                            int sb, const float *gy, float *ga, float *gb, int64_t count)
{
    const float e = count ? b[0] : 0;

    (void)n;
    if (ga && sa && !sb && (e == 2 || e == 3)) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            ga[i] = gy[i] * (e == 2 ? 2 * a[i] : 3 * a[i] * a[i]);
    } else if (ga) {
        for (int64_t i = 0; i < count; i++) {
            float p = b[i * sb];

            ga[i] = p == 0 ? 0 : gy[i] * (p * powf(a[i * sa], p - 1));
        }
    }
    for (int64_t i = 0; gb && i < count; i++) {
        float x = a[i * sa];

        gb[i] = x > 0 ? gy[i] * (powf(x, b[i * sb]) * logf(x)) : 0;
    }
}

/* By repeated squaring; overflow wraps around.  Negative b: 1 / a^|b| truncated toward zero. */
static int64_t whole_power(int64_t a, int64_t b)
{
    uint64_t result = 1, square = (uint64_t)a;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (; b; b >>= 1) {
        if (b & 1)
            result *= square;
        square *= square;
    }
    return (int64_t)result;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *in[2] = { &n->in[0]->t, &n->in[1]->t }, *y = &n->out[0]->t;
    bool whole = !is_real(in[0]->dtype) && !is_real(in[1]->dtype);
    int64_t count = pare_numel(y);
    struct pare_walk w;

    if (in[0]->dtype == PARE_F32 && in[1]->dtype == PARE_F32)
        return pare_forward_map2(n, c, err);
    pare_walk_start(&w, y, in, 2);
    for (int64_t i = 0; i < count; i++, pare_walk_next(&w)) {
        double p = 0;
        int64_t v;

        if (whole) {
            v = whole_power(pare_get_int(in[0], w.at[0]), pare_get_int(in[1], w.at[1]));
        } else {
            p = pow(pare_get(in[0], w.at[0]), pare_get(in[1], w.at[1]));
            v = pare_whole(p);
        }
        switch ((int)y->dtype) {
        case PARE_F32: pare_f32_mut(y)[i] = (float)p; break;
        case PARE_F64: ((double *)y->data)[i] = p; break;
        case PARE_I32: ((int32_t *)y->data)[i] = (int32_t)v; break;
        default: pare_i64_mut(y)[i] = v; break;
        }
    }
    return 0;
}

/* An exponent of another type has no gradient. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor b = n->in[1]->t;
    const struct pare_tensor *in[2] = { &n->in[0]->t, &b };

    if (b.dtype != PARE_F32) {
        b.dtype = PARE_F32;
        PARE_TRY(pare_tensor_alloc(c->scratch, &b, err));
        PARE_TRY(pare_convert(PARE_F32, b.data, n->in[1]->t.dtype, n->in[1]->t.data, pare_numel(&b),
                              err));
    }
    pare_apply_dmap2(n, in);
    return 0;
}

const struct pare_op pare_op_pow = {
    .type = "Pow",
    .doc = "a to the power of b.",
    .since = 6,
    .in = "TU",
    .types = PARE_T_FLOATS | PARE_T(PARE_I32) | PARE_T(PARE_I64),
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_old_broadcast_attrs,
    .attr_size = sizeof(struct pare_old_broadcast),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_elementwise,
    .map2 = map2,
    .dmap2 = dmap2,
    .flags = PARE_OP_WIDE,
};
