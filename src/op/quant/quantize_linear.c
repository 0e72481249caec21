/* quantize_linear.c - QuantizeLinear: y = round(x / scale) + zero, clamped to the type. */
#include "quant_family.h"

enum { X, SCALE, ZERO };
enum { CHUNK = 256 };

struct quantize {
    int64_t axis, block_size, output_dtype, precision, saturate;
};

static const struct pare_opt quantize_attrs[] = {
    PARE_INT("axis", offsetof(struct quantize, axis), "axis of a list of scales", 1, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("block_size", offsetof(struct quantize, block_size),
             "elements along the axis that share a scale; 0: no blocks", 0, 0, 1e15),
    PARE_INT("output_dtype", offsetof(struct quantize, output_dtype),
             "type of the result if there is no zero point", 0, 0, 31),
    PARE_INT("precision", offsetof(struct quantize, precision),
             "type to divide in; 0 and float32 are supported", 0, 0, 31),
    PARE_INT("saturate", offsetof(struct quantize, saturate),
             "for float8 results, which are not supported", 1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct quantize *a = n->attr;
    const struct pare_tensor *zero = n->n_in > ZERO && n->in[ZERO] ? &n->in[ZERO]->t : NULL;
    enum pare_dtype d = (enum pare_dtype)a->output_dtype;
    struct pare_qgrid g;

    if (a->precision && a->precision != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED, "precision is %s, which is not supported",
                         pare_dtype_name((enum pare_dtype)a->precision));
    if (zero && d && d != zero->dtype)
        return pare_fail(err, PARE_ESHAPE, "output_dtype is %s but the zero point is %s",
                         pare_dtype_name(d), pare_dtype_name(zero->dtype));
    d = zero ? zero->dtype : d ? d : PARE_U8;
    if (!(PARE_T_QUANT & PARE_T(d)))
        return pare_fail(err, PARE_EUNSUPPORTED, "the result is %s, which is not supported",
                         pare_dtype_name(d));
    PARE_TRY(pare_quant_type(&n->in[SCALE]->t, "scale",
                             PARE_T_FLOAT | PARE_T(PARE_F16) | PARE_T(PARE_BF16) | PARE_T(PARE_F64),
                             err));
    PARE_TRY(pare_qgrid(&g, &n->in[X]->t, n, a->axis, a->block_size, err));
    pare_like(&n->out[0]->t, &n->in[X]->t);
    n->out[0]->t.dtype = d;
    return 0;
}

/* One contiguous run, with one scale or one scale per element. */
static void run(const struct pare_node *n, int64_t at, int64_t count, const float *s,
                const float *z, int64_t step)
{
    const struct pare_tensor *x = &n->in[X]->t, *y = &n->out[0]->t;
    size_t size = pare_dtype_size(y->dtype);
    float buf[CHUNK];

    if (x->dtype == PARE_F32) {
        pare_quantize_values(y->dtype, (char *)y->data + (size_t)at * size, pare_f32(x) + at, count,
                             s, z, step);
        return;
    }
    for (int64_t i = 0; i < count; i += CHUNK) {
        int64_t m = count - i < CHUNK ? count - i : CHUNK;

        for (int64_t k = 0; k < m; k++)
            buf[k] = (float)((const int32_t *)x->data)[at + i + k];
        pare_quantize_values(y->dtype, (char *)y->data + (size_t)(at + i) * size, buf, m,
                             s + i * step, z + i * step, step);
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct quantize *a = n->attr;
    const struct pare_value *zero = n->n_in > ZERO ? n->in[ZERO] : NULL;
    int64_t count = pare_numel(&n->in[SCALE]->t);
    float *s = pare_quant_floats(c, &n->in[SCALE]->t, err), *z;
    struct pare_qgrid g;

    z = zero ? pare_quant_floats(c, &zero->t, err)
             : pare_alloc(c->scratch, (size_t)count, sizeof(*z));
    if (!s || !z)
        return pare_no_memory(err, "for %lld scales", (long long)count);
    PARE_TRY(pare_qgrid(&g, &n->in[X]->t, n, a->axis, a->block_size, err));
    for (int64_t o = 0; o < g.l.outer; o++)
        for (int64_t k = 0; k < g.l.len; k++) {
            int64_t p = o * g.so + k / g.block * g.sk;

            run(n, (o * g.l.len + k) * g.l.inner, g.l.inner, s + p, z + p, g.si);
        }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_quant_ties(n, ((const struct quantize *)n->attr)->axis, t);
}

const struct pare_op pare_op_quantize_linear = {
    .type = "QuantizeLinear",
    .doc = "Float values to integers, by a scale and a zero point.",
    .since = 10,
    .in = "TUA?",
    .types = PARE_T_FLOAT | PARE_T(PARE_I32),
    .min_out = 1,
    .max_out = 1,
    .attrs = quantize_attrs,
    .attr_size = sizeof(struct quantize),
    .flags = PARE_OP_ELEMENTWISE | PARE_OP_STEPS | PARE_OP_FLOAT_ONLY,
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .settings = 0x6,
};
