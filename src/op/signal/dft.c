/* dft.c - DFT: the discrete Fourier transform along one axis, its inverse, RFFT and IRFFT.
 *
 * The last axis has the real part, or real and imaginary parts.  With onesided, the transform of a
 * real signal has the first half of its spectrum only, and the inverse of such a half is real.
 */
#include "../reduce/lanes.h"
#include "fft.h"

enum { X, LENGTH, AXIS };

struct dft {
    int64_t axis, inverse, onesided;
};

#define AT(field) offsetof(struct dft, field)
static const struct pare_opt attrs[] = {
    PARE_INT("axis", AT(axis), "the axis of the signal (opset 17; from opset 20 on an input)", 1,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("inverse", AT(inverse), "1: the inverse transform", 0, 0, 1),
    PARE_INT("onesided", AT(onesided), "1: only the first half of the spectrum", 0, 0, 1),
    PARE_OPT_END
};

/* What one transform reads and writes. */
struct shape {
    int axis;
    int64_t n;          /* length of the transform */
    int64_t in, out;    /* elements along the axis that are read, that are written */
    int x_parts, parts; /* 1: real, 2: complex; of the input and of the result */
    bool half;          /* the inverse of a half spectrum */
};

static int find_shape(const struct pare_node *n, struct shape *s, struct pare_err *err)
{
    const struct dft *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t;
    char buf[PARE_SHAPE_TEXT];
    int64_t axis, absent;

    PARE_TRY(pare_signal_number(n, AXIS, "axis", n->version < 20 ? a->axis : -2, &axis, err));
    PARE_TRY(pare_axis(axis, x->rank, &s->axis, err));
    s->x_parts = (int)(x->dim[x->rank - 1] == 2 ? 2 : 1);
    s->half = a->inverse && a->onesided;
    if (s->axis == x->rank - 1 || x->dim[x->rank - 1] != s->x_parts)
        return pare_fail(err, PARE_ESHAPE,
                         "the input is %s and the axis is %d; expected a last axis of size 1 "
                         "(real) or 2 (complex), and another axis to transform",
                         pare_shape_text(x, buf, sizeof(buf)), s->axis);
    if (a->onesided && !a->inverse && s->x_parts == 2)
        return pare_fail(err, PARE_ESHAPE,
                         "the input %s is complex; onesided needs a real signal, whose last axis "
                         "has size 1",
                         pare_shape_text(x, buf, sizeof(buf)));
    absent = x->dim[s->axis];
    absent = s->half ? 2 * (absent - 1) : absent;
    PARE_TRY(pare_signal_number(n, LENGTH, "dft_length", absent, &s->n, err));
    if (s->n < 1 || s->n > INT64_MAX / 64)
        return pare_fail(err, PARE_ESHAPE, "the length of the transform is %lld, must be positive",
                         (long long)s->n);
    s->in = s->half ? s->n / 2 + 1 : s->n;
    s->in = s->in < x->dim[s->axis] ? s->in : x->dim[s->axis];
    s->out = a->onesided && !a->inverse ? s->n / 2 + 1 : s->n;
    s->parts = s->half ? 1 : 2;
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor y = n->in[X]->t;
    struct shape s;

    PARE_TRY(find_shape(n, &s, err));
    y.dim[s.axis] = s.out;
    y.dim[y.rank - 1] = s.parts;
    pare_like(&n->out[0]->t, &y);
    return 0;
}

/* A half spectrum becomes whole: element n - k is the conjugate of element k. */
static void mirror(double *v, int64_t n)
{
    v[1] = 0;
    for (int64_t k = 1; k <= n / 2; k++) {
        bool middle = 2 * k == n;

        v[2 * (n - k)] = v[2 * k];
        v[2 * (n - k) + 1] = middle ? 0 : -v[2 * k + 1];
    }
}

/* The lanes of a tensor whose last axis has the parts of a number. */
struct lane {
    struct pare_lanes l;
    int parts;
};

static struct lane lane_of(const struct pare_tensor *t, int axis)
{
    struct pare_tensor whole = *t;

    whole.rank--;
    return (struct lane){ pare_lanes(&whole, axis, axis), (int)t->dim[t->rank - 1] };
}

static int64_t at(const struct lane *l, int64_t lane, int64_t k)
{
    int64_t o = lane / l->l.inner, i = lane % l->l.inner;

    return ((o * l->l.len + k) * l->l.inner + i) * l->parts;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct dft *a = n->attr;
    const struct pare_tensor *x = &n->in[X]->t, *y = &n->out[0]->t;
    struct lane from, to;
    struct pare_fft f;
    struct shape s;
    double *v;

    PARE_TRY(find_shape(n, &s, err));
    from = lane_of(x, s.axis);
    to = lane_of(y, s.axis);
    if (!pare_numel(y))
        return 0;
    PARE_TRY(pare_fft_init(&f, s.n, c->scratch, err));
    v = pare_alloc(c->scratch, (size_t)s.n, 2 * sizeof(*v));
    if (!v)
        return pare_no_memory(err, "for a signal of length %lld", (long long)s.n);
    for (int64_t i = 0; i < to.l.outer * to.l.inner; i++) {
        memset(v, 0, (size_t)s.n * 2 * sizeof(*v));
        for (int64_t k = 0; k < s.in; k++)
            for (int p = 0; p < s.x_parts; p++)
                v[2 * k + p] = pare_fft_get(x, at(&from, i, k) + p);
        if (s.half)
            mirror(v, s.n);
        pare_fft_run(&f, v, a->inverse != 0);
        for (int64_t k = 0; k < s.out; k++)
            for (int p = 0; p < s.parts; p++)
                pare_fft_put(y, at(&to, i, k) + p,
                             a->inverse ? v[2 * k + p] / (double)s.n : v[2 * k + p]);
    }
    return 0;
}

/* The transform is linear, so its adjoint is the transform in the other direction; each element
 * that mirror() writes twice counts twice. */
static void back_lane(const struct pare_node *n, const struct shape *s, const struct pare_fft *f,
                      double *v, int64_t i)
{
    const struct dft *a = n->attr;
    struct lane from = lane_of(&n->in[X]->t, s->axis), to = lane_of(&n->out[0]->t, s->axis);
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[X]->grad);

    memset(v, 0, (size_t)s->n * 2 * sizeof(*v));
    for (int64_t k = 0; k < s->out; k++)
        for (int p = 0; p < s->parts; p++)
            v[2 * k + p] = (double)gy[at(&to, i, k) + p];
    pare_fft_run(f, v, !a->inverse);
    for (int64_t k = 0; k < s->in; k++)
        for (int p = 0; p < s->x_parts; p++) {
            double factor = a->inverse ? 1 / (double)s->n : 1;

            if (s->half && k && 2 * k != s->n)
                factor *= 2;
            if (s->half && p && (!k || 2 * k == s->n))
                factor = 0;
            gx[at(&from, i, k) + p] += (float)(factor * v[2 * k + p]);
        }
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_fft f;
    struct shape s;
    double *v;

    if (!n->out[0]->grad.data || !n->in[X]->grad.data || !pare_numel(&n->in[X]->t))
        return 0;
    PARE_TRY(find_shape(n, &s, err));
    PARE_TRY(pare_fft_init(&f, s.n, c->scratch, err));
    v = pare_alloc(c->scratch, (size_t)s.n, 2 * sizeof(*v));
    if (!v)
        return pare_no_memory(err, "for a signal of length %lld", (long long)s.n);
    for (int64_t i = 0; i < pare_numel(&n->in[X]->t) / n->in[X]->t.dim[s.axis] / s.x_parts; i++)
        back_lane(n, &s, &f, v, i);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int rank = n->in[X]->t.rank;
    struct pare_err err;
    struct shape s;

    if (!find_shape(n, &s, &err))
        pare_ties_except(n, 1u << s.axis | 1u << (rank - 1), t);
}

const struct pare_op pare_op_dft = {
    .type = "DFT",
    .doc = "Discrete Fourier transform along an axis, or its inverse.",
    .since = 17,
    .in = "TI?L?",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct dft),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .settings = PARE_IN(LENGTH) | PARE_IN(AXIS),
    .flags = PARE_OP_FLOAT_ONLY,
};
