/* dequantize_linear.c - DequantizeLinear: y = (x - zero) * scale. */
#include "quant_family.h"

enum { X, SCALE, ZERO };

struct dequantize {
    int64_t axis, block_size, output_dtype;
};

static const struct pare_opt dequantize_attrs[] = {
    PARE_INT("axis", offsetof(struct dequantize, axis), "axis of a list of scales", 1, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("block_size", offsetof(struct dequantize, block_size),
             "elements along the axis that share a scale; 0: no blocks", 0, 0, 1e15),
    PARE_INT("output_dtype", offsetof(struct dequantize, output_dtype),
             "type of the result; 0: that of the scale", 0, 0, 31),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct dequantize *a = n->attr;
    const struct pare_tensor *s = &n->in[SCALE]->t;
    enum pare_dtype d = (enum pare_dtype)a->output_dtype;
    struct pare_qgrid g;

    PARE_TRY(pare_quant_type(s, "scale", PARE_T_FLOAT | PARE_T(PARE_F16) | PARE_T(PARE_BF16), err));
    if (d != PARE_NONE && d != PARE_F32 && d != PARE_F16 && d != PARE_BF16)
        return pare_fail(err, PARE_EUNSUPPORTED, "output_dtype is %s, which is not supported",
                         pare_dtype_name(d));
    PARE_TRY(pare_qgrid(&g, &n->in[X]->t, n, a->axis, a->block_size, err));
    pare_like(&n->out[0]->t, &n->in[X]->t);
    n->out[0]->t.dtype = d ? d : s->dtype;
    return 0;
}

/* The difference of two int32 needs more than 32 bits; other types fit. */
#define RUN(name, type, wide)                                                        \
    PARE_SIMD static void name(float *restrict y, const type *restrict x, int64_t n, \
                               const float *s, const int32_t *z, int64_t step)       \
    {                                                                                \
        if (!step)                                                                   \
            for (int64_t i = 0; i < n; i++)                                          \
                y[i] = (float)((wide)x[i] - (wide)z[0]) * s[0];                      \
        else                                                                         \
            for (int64_t i = 0; i < n; i++)                                          \
                y[i] = (float)((wide)x[i] - (wide)z[i]) * s[i];                      \
    }
RUN(from_u8, uint8_t, int32_t)
RUN(from_i8, int8_t, int32_t)
RUN(from_u16, uint16_t, int32_t)
RUN(from_i16, int16_t, int32_t)
RUN(from_i32, int32_t, int64_t)

static void run(const struct pare_tensor *x, int64_t at, const struct pare_qgrid *g, float *y,
                const float *s, const int32_t *z)
{
    int64_t n = g->l.inner, step = g->si;

    switch ((int)x->dtype) {
    case PARE_U4:
    case PARE_U8: from_u8(y + at, (uint8_t *)x->data + at, n, s, z, step); break;
    case PARE_I4:
    case PARE_I8: from_i8(y + at, (int8_t *)x->data + at, n, s, z, step); break;
    case PARE_U16: from_u16(y + at, (uint16_t *)x->data + at, n, s, z, step); break;
    case PARE_I16: from_i16(y + at, (int16_t *)x->data + at, n, s, z, step); break;
    case PARE_I32: from_i32(y + at, (int32_t *)x->data + at, n, s, z, step); break;
    default: break;
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct dequantize *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;
    const struct pare_value *zero = n->n_in > ZERO ? n->in[ZERO] : NULL;
    struct pare_tensor y = n->out[0]->t;
    int64_t count = pare_numel(&n->in[SCALE]->t);
    float *s = pare_quant_floats(c, &n->in[SCALE]->t, err);
    int32_t *z = pare_alloc(c->scratch, (size_t)count, sizeof(*z));
    struct pare_qgrid g;

    if (!s || !z)
        return pare_no_memory(err, "for %lld scales", (long long)count);
    if (zero)
        PARE_TRY(pare_convert(PARE_I32, z, zero->t.dtype, zero->t.data, count, err));
    PARE_TRY(pare_qgrid(&g, x, n, a->axis, a->block_size, err));
    if (y.dtype != PARE_F32) {
        y.dtype = PARE_F32;
        PARE_TRY(pare_tensor_alloc(c->scratch, &y, err));
    }
    for (int64_t o = 0; o < g.l.outer; o++)
        for (int64_t k = 0; k < g.l.len; k++) {
            int64_t p = o * g.so + k / g.block * g.sk;

            run(x, (o * g.l.len + k) * g.l.inner, &g, pare_f32_mut(&y), s + p, z + p);
        }
    if (y.data == n->out[0]->t.data)
        return 0;
    return pare_convert(n->out[0]->t.dtype, n->out[0]->t.data, PARE_F32, y.data, pare_numel(&y),
                        err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_quant_ties(n, ((const struct dequantize *)n->attr)->axis, t);
}

const struct pare_op pare_op_dequantize_linear = {
    .type = "DequantizeLinear",
    .doc = "Integers to float values, by a scale and a zero point.",
    .since = 10,
    .in = "TUT?",
    .types = PARE_T_QUANT | PARE_T(PARE_I32),
    .min_out = 1,
    .max_out = 1,
    .attrs = dequantize_attrs,
    .attr_size = sizeof(struct dequantize),
    .flags = PARE_OP_ELEMENTWISE | PARE_OP_LAZY | PARE_OP_FLOAT_ONLY,
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .settings = 0x6,
};
