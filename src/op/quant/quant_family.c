/* quant_family.c - shared by quantization operators. */
#include "quant_family.h"

#include <math.h>

void pare_quant_range(enum pare_dtype d, int *lo, int *hi)
{
    static const struct {
        enum pare_dtype d;
        int lo, hi;
    } range[] = {
        { PARE_U8, 0, UINT8_MAX },   { PARE_I8, INT8_MIN, INT8_MAX },
        { PARE_U16, 0, UINT16_MAX }, { PARE_I16, INT16_MIN, INT16_MAX },
        { PARE_U4, 0, 15 },          { PARE_I4, -8, 7 },
        { PARE_U2, 0, 3 },           { PARE_I2, -2, 1 },
    };

    *lo = *hi = 0;
    for (size_t i = 0; i < sizeof(range) / sizeof(*range); i++)
        if (range[i].d == d) {
            *lo = range[i].lo;
            *hi = range[i].hi;
        }
}

int pare_quant_type(const struct pare_tensor *t, const char *what, uint32_t types,
                    struct pare_err *err)
{
    if (!t || types & PARE_T(t->dtype))
        return 0;
    return pare_fail(err, PARE_EUNSUPPORTED, "%s is %s, which is not supported here", what,
                     pare_dtype_name(t->dtype));
}

int pare_quant_view(struct pare_tensor *view, const struct pare_tensor *t,
                    const struct pare_tensor *x, int axis, struct pare_err *err)
{
    char tt[PARE_SHAPE_TEXT], tx[PARE_SHAPE_TEXT];
    struct pare_tensor both;

    *view = *t;
    if (pare_numel(t) == 1) {
        view->rank = 0;
        return 0;
    }
    if (t->rank == 1 && axis >= 0 && axis < x->rank) {
        view->rank = x->rank - axis;
        for (int i = 1; i < view->rank; i++)
            view->dim[i] = 1;
    }
    if (pare_broadcast(&both, x, view, err) || !pare_same_shape(&both, x))
        return pare_fail(err, PARE_ESHAPE,
                         "a scale or zero point is %s, which does not broadcast to %s",
                         pare_shape_text(t, tt, sizeof(tt)), pare_shape_text(x, tx, sizeof(tx)));
    return 0;
}

/* One scale per block along the axis. */
static int block_grid(struct pare_qgrid *g, const struct pare_tensor *x,
                      const struct pare_tensor *s, int axis, int64_t block)
{
    if (s->rank != x->rank)
        return -1;
    for (int i = 0; i < x->rank; i++) {
        int64_t want = x->dim[i];

        if (i == axis)
            want = want / block + (want % block != 0);
        if (s->dim[i] != want)
            return -1;
    }
    g->l = pare_lanes(x, axis, axis);
    g->block = block;
    g->si = 1;
    g->sk = g->l.inner;
    g->so = s->dim[axis] * g->l.inner;
    return 0;
}

int pare_qgrid(struct pare_qgrid *g, const struct pare_tensor *x, const struct pare_node *n,
               int64_t axis, int64_t block, struct pare_err *err)
{
    const struct pare_tensor *s = &n->in[1]->t;
    const struct pare_tensor *z = n->n_in > 2 && n->in[2] ? &n->in[2]->t : NULL;
    char tx[PARE_SHAPE_TEXT], ts[PARE_SHAPE_TEXT];
    int ax, rc = 0;

    *g = (struct pare_qgrid){ .l = pare_lanes(x, 1, 0), .block = 1 };
    if (z && (block || pare_numel(s) != 1 || pare_numel(z) != 1) && !pare_same_shape(s, z))
        return pare_fail(err, PARE_ESHAPE, "scale is %s but zero point is %s",
                         pare_shape_text(s, ts, sizeof(ts)), pare_shape_text(z, tx, sizeof(tx)));
    if (pare_numel(s) == 1 && !block) {
        g->l = (struct pare_lanes){ 1, 1, pare_numel(x) };
        return 0;
    }
    PARE_TRY(pare_axis(axis, x->rank, &ax, err));
    if (block) {
        rc = block_grid(g, x, s, ax, block);
    } else if (s->rank != 1 || s->dim[0] != x->dim[ax]) {
        rc = -1;
    } else {
        g->l = pare_lanes(x, ax, ax);
        g->sk = 1;
        if (g->l.inner == 1) /* one long run, with a scale per element */
            *g = (struct pare_qgrid){ { g->l.outer, 1, g->l.len }, 1, 0, 0, 1 };
    }
    if (!rc)
        return 0;
    return pare_fail(err, PARE_ESHAPE, "scale is %s, which does not fit axis %d of an input %s%s",
                     pare_shape_text(s, ts, sizeof(ts)), ax, pare_shape_text(x, tx, sizeof(tx)),
                     block ? " in blocks" : "");
}

/* NaN becomes the lowest. */
#define QUANTIZE(name, type)                                                         \
    PARE_SIMD static void name(type *restrict y, const float *restrict x, int64_t n, \
                               const float *s, const float *z, const float *range)   \
    {                                                                                \
        float lo = range[0], hi = range[1];                                          \
                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                            \
            float v = rintf(x[i] / s[0]) + z[0];                                     \
                                                                                     \
            v = v > lo ? v : lo;                                                     \
            y[i] = (type)(int32_t)(v < hi ? v : hi);                                 \
        }                                                                            \
    }
QUANTIZE(to_u8, uint8_t)
QUANTIZE(to_i8, int8_t)
QUANTIZE(to_u16, uint16_t)
QUANTIZE(to_i16, int16_t)

void pare_quantize_values(enum pare_dtype d, void *y, const float *x, int64_t n, const float *s,
                          const float *z, int64_t step)
{
    int64_t run = step ? 1 : n;
    float range[2];
    int lo, hi;

    pare_quant_range(d, &lo, &hi);
    range[0] = (float)lo;
    range[1] = (float)hi;
    for (int64_t i = 0; i < n; i += run, s += step, z += step)
        switch ((int)d) {
        case PARE_I4:
        case PARE_I8: to_i8((int8_t *)y + i, x + i, run, s, z, range); break;
        case PARE_U16: to_u16((uint16_t *)y + i, x + i, run, s, z, range); break;
        case PARE_I16: to_i16((int16_t *)y + i, x + i, run, s, z, range); break;
        default: to_u8((uint8_t *)y + i, x + i, run, s, z, range); break;
        }
}

float *pare_quant_floats(struct pare_ctx *c, const struct pare_tensor *t, struct pare_err *err)
{
    int64_t n = pare_numel(t);
    float *v = pare_alloc_raw(c->scratch, (size_t)n, sizeof(*v));

    if (!v)
        pare_no_memory(err, "for %lld numbers", (long long)n);
    else if (pare_convert(PARE_F32, v, t->dtype, t->data, n, err))
        return NULL;
    return v;
}

int pare_quant_centered(struct pare_ctx *c, const struct pare_tensor *t,
                        const struct pare_tensor *zero, struct pare_tensor *out,
                        struct pare_err *err)
{
    int64_t n = pare_numel(t);
    bool one = !zero || pare_numel(zero) == 1;
    int32_t z = zero && one ? (int32_t)pare_get_int(zero, 0) : 0, *v;
    struct pare_walk w;

    *out = *t;
    out->dtype = PARE_I32;
    PARE_TRY(pare_tensor_alloc(c->scratch, out, err));
    v = out->data;
    if (t->dtype == PARE_U8)
        for (int64_t i = 0; i < n; i++)
            v[i] = ((const uint8_t *)t->data)[i] - z;
    else
        for (int64_t i = 0; i < n; i++)
            v[i] = ((const int8_t *)t->data)[i] - z;
    if (one || !n)
        return 0;
    pare_walk_start(&w, t, &zero, 1);
    for (int64_t i = 0; i < n; i++, pare_walk_next(&w))
        v[i] -= (int32_t)pare_get_int(zero, w.at[0]);
    return 0;
}

int pare_requantize(struct pare_ctx *c, const int32_t *acc, const struct pare_tensor *y,
                    const struct pare_tensor *view, struct pare_err *err)
{
    const struct pare_tensor *in[4] = { &view[0], &view[1], &view[2], &view[3] };
    int64_t n = pare_numel(y);
    struct pare_walk w;
    float *p[4];
    int lo, hi;

    for (int i = 0; i < 4; i++) {
        p[i] = pare_quant_floats(c, in[i], err);
        if (!p[i])
            return err->code;
    }
    pare_quant_range(y->dtype, &lo, &hi);
    pare_walk_start(&w, y, in, 4);
    for (int64_t i = 0; i < n; i++, pare_walk_next(&w)) {
        float f = p[0][w.at[0]] * p[1][w.at[1]] / p[2][w.at[2]];
        float v = rintf((float)acc[i] * f) + p[3][w.at[3]];

        v = v > (float)lo ? v : (float)lo;
        v = v < (float)hi ? v : (float)hi;
        if (y->dtype == PARE_U8)
            ((uint8_t *)y->data)[i] = (uint8_t)v;
        else
            ((int8_t *)y->data)[i] = (int8_t)v;
    }
    return 0;
}

void pare_quant_ties(const struct pare_node *n, int64_t axis, struct pare_ties *t)
{
    int rank = n->in[0]->t.rank, ax = (int)(axis < 0 ? axis + rank : axis);

    /* With a scale per block, or scales that are not a list, all axes are frozen. */
    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] && pare_numel(&n->in[k]->t) > 1 &&
            (n->in[k]->t.rank != 1 || ax < 0 || ax >= rank ||
             n->in[k]->t.dim[0] != n->out[0]->t.dim[ax]))
            return;
    pare_ties_except(n, 0, t);
    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] && pare_numel(&n->in[k]->t) > 1)
            pare_tie(t, n->in[k], 0, n->out[0], ax);
}

/* One input plane with one plane of the kernel, added to one output plane. */
PARE_SIMD static void add_plane(const struct pare_window *w, const int32_t *x,
                                const int32_t *kernel, int32_t *y)
{
    int64_t s = w->stride[2], span[3][2];

    for (int64_t kd = 0; kd < w->kernel[0]; kd++)
        for (int64_t kh = 0; kh < w->kernel[1]; kh++)
            for (int64_t kw = 0; kw < w->kernel[2]; kw++, kernel++) {
                pare_window_span(w, 0, kd, &span[0][0], &span[0][1]);
                pare_window_span(w, 1, kh, &span[1][0], &span[1][1]);
                pare_window_span(w, 2, kw, &span[2][0], &span[2][1]);
                for (int64_t d = span[0][0]; d < span[0][1]; d++)
                    for (int64_t h = span[1][0]; h < span[1][1]; h++) {
                        int64_t id = d * w->stride[0] - w->pad_begin[0] + kd * w->dilation[0];
                        int64_t ih = h * w->stride[1] - w->pad_begin[1] + kh * w->dilation[1];
                        int64_t iw = kw * w->dilation[2] - w->pad_begin[2];
                        int64_t from = (id * w->in[1] + ih) * w->in[2] + iw;
                        uint32_t *out = (uint32_t *)y + (d * w->out[1] + h) * w->out[2];

                        for (int64_t o = span[2][0]; o < span[2][1]; o++)
                            out[o] += (uint32_t)*kernel * (uint32_t)x[from + o * s];
                    }
            }
}

void pare_conv_int(const struct pare_window *win, const struct pare_tensor *x,
                   const struct pare_tensor *w, int32_t *y)
{
    int64_t N = x->dim[0], M = w->dim[0], C = w->dim[1], in_plane, out_plane, taps;
    struct pare_window p = *win;

    pare_window_3d(&p);
    in_plane = p.in[0] * p.in[1] * p.in[2];
    out_plane = p.out[0] * p.out[1] * p.out[2];
    taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
    if (!out_plane || !N || !M)
        return;
    memset(y, 0, (size_t)(N * M * out_plane) * sizeof(*y));
    for (int64_t i = 0; i < N; i++)
        for (int64_t m = 0; m < M; m++)
            for (int64_t k = 0; k < C; k++)
                add_plane(&p,
                          (int32_t *)x->data +
                              (i * x->dim[1] + m / (M / p.group) * C + k) * in_plane,
                          (int32_t *)w->data + (m * C + k) * taps, y + (i * M + m) * out_plane);
}

double pare_conv_int_macs(const struct pare_node *n, int w)
{
    const struct pare_tensor *t = &n->in[w]->t;
    double per_output = 1;

    for (int i = 1; i < t->rank; i++)
        per_output *= (double)t->dim[i];
    return (double)pare_numel(&n->out[0]->t) * per_output;
}
