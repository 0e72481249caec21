/* qlinear_family.c - quantized operators computed by dequantizing, a float operator, quantizing. */
#include "qlinear_family.h"

#define MOST 2
#define VERSION 13 /* attributes of the float operators */

static const struct pare_value *input(const struct pare_node *n, int k)
{
    return k < n->n_in ? n->in[k] : NULL;
}

int pare_qlinear_single(const struct pare_node *n, int k, enum pare_dtype type,
                        struct pare_err *err)
{
    const struct pare_value *v = input(n, k);

    if (v && pare_numel(&v->t) != 1)
        return pare_fail(err, PARE_ESHAPE,
                         "input %d, a scale or zero point, has %lld elements, "
                         "must have one",
                         k, (long long)pare_numel(&v->t));
    if (v && type != PARE_NONE && v->t.dtype != type)
        return pare_fail(err, PARE_EUNSUPPORTED, "input %d is %s, must be %s", k,
                         pare_dtype_name(v->t.dtype), pare_dtype_name(type));
    return 0;
}

/* A float32 tensor of that shape, without contents. */
static struct pare_value real_like(const struct pare_value *v)
{
    struct pare_value r = { .name = v->name, .t = v->t };

    r.t.dtype = PARE_F32;
    r.t.data = NULL;
    return r;
}

/* Default attributes for an operator without attributes of its own. */
static void become(struct pare_node *n, const struct pare_qlinear *q)
{
    const struct pare_op *op = q->real;
    static const int64_t nothing[16];

    if (!n->op->attrs && op->attr_size <= sizeof(nothing))
        n->attr = nothing;
    n->op = op;
    n->version = q->version ? q->version : VERSION;
    n->n_out = 1;
}

int pare_qlinear_infer(struct pare_node *n, const struct pare_qlinear *q, struct pare_err *err)
{
    struct pare_value x[MOST], y = { .name = "" }, *in[MOST], *out[1] = { &y };
    enum pare_dtype type = n->in[q->first]->t.dtype;
    struct pare_node real = *n;

    for (int i = 0; i < q->n; i++) {
        int k = q->first + 3 * i;

        PARE_TRY(pare_qlinear_single(n, k + 1, PARE_F32, err));
        PARE_TRY(pare_qlinear_single(n, k + 2, type, err));
        x[i] = real_like(n->in[k]);
        in[i] = &x[i];
    }
    PARE_TRY(pare_qlinear_single(n, q->y, PARE_F32, err));
    PARE_TRY(pare_qlinear_single(n, q->y + 1, type, err));
    become(&real, q);
    real.in = in;
    real.n_in = q->n;
    real.out = out;
    PARE_TRY(q->real->infer(&real, err));
    pare_like(&n->out[0]->t, &y.t);
    n->out[0]->t.dtype = type;
    return 0;
}

static float scale_of(const struct pare_node *n, int k)
{
    return pare_f32(&n->in[k]->t)[0];
}

static float zero_of(const struct pare_node *n, int k)
{
    return input(n, k) ? (float)pare_get_int(&n->in[k]->t, 0) : 0;
}

/* Dequantize the operand that starts at input k. */
static int to_real(const struct pare_node *n, int k, struct pare_ctx *c, struct pare_value *x,
                   struct pare_err *err)
{
    float *v = pare_quant_floats(c, &n->in[k]->t, err), s = scale_of(n, k + 1);
    float z = zero_of(n, k + 2);

    if (!v)
        return err->code;
    *x = real_like(n->in[k]);
    x->t.data = v;
    for (int64_t i = 0; i < pare_numel(&x->t); i++)
        v[i] = (v[i] - z) * s;
    return 0;
}

int pare_qlinear_forward(struct pare_node *n, const struct pare_qlinear *q, struct pare_ctx *c,
                         struct pare_err *err)
{
    int count = q->n ? q->n : (n->n_in - q->first) / 3;
    struct pare_value *x = pare_alloc(c->scratch, (size_t)count, sizeof(*x));
    struct pare_value **in = pare_alloc(c->scratch, (size_t)count, sizeof(void *));
    struct pare_value y = real_like(n->out[0]), *out[1] = { &y };
    float s = scale_of(n, q->y), z = zero_of(n, q->y + 1);
    struct pare_node real = *n;

    if (!x || !in)
        return pare_no_memory(err, "for %d operands", count);
    for (int i = 0; i < count; i++) {
        PARE_TRY(to_real(n, q->first + 3 * i, c, &x[i], err));
        in[i] = &x[i];
    }
    PARE_TRY(pare_tensor_alloc(c->scratch, &y.t, err));
    become(&real, q);
    real.in = in;
    real.n_in = count;
    real.out = out;
    PARE_TRY(q->real->forward(&real, c, err));
    pare_quantize_values(n->out[0]->t.dtype, n->out[0]->t.data, pare_f32(&y.t), pare_numel(&y.t),
                         &s, &z, 0);
    return 0;
}
