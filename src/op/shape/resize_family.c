/* resize_family.c - resampling, shared by Resize and Upsample.
 *
 * All modes work axis by axis.  Nearest computes one list of source positions per axis.  Linear and
 * cubic compute weighted source positions ("taps") for each position of an axis, and apply the axes
 * one after the other, shrinking ones first so that no intermediate tensor is larger than both
 * ends.
 */
#include "resize_family.h"

#include <math.h>

void pare_resize_start(struct pare_resize *r, const struct pare_tensor *x)
{
    r->rank = x->rank;
    for (int i = 0; i < x->rank; i++)
        r->axis[i] = (struct pare_resize_axis){ x->dim[i], x->dim[i], 1, true, 0, 1 };
}

/* Scales are float32 in files, and so is the product that gives the size: 0.7 of 10 elements must
 * be 7. */
int pare_resize_by(struct pare_resize_axis *a, double scale, int axis, struct pare_err *err)
{
    double out = (double)a->in * (a->end - a->start) * scale;

    out = floor(a->in < 1 << 24 ? (double)(float)out : out);
    if (!(scale > 0 && isfinite(scale)) || !(out >= 0 && out < 0x1p62))
        return pare_fail(err, PARE_ESHAPE, "axis %d of size %lld cannot be scaled by %g", axis,
                         (long long)a->in, scale);
    a->out = (int64_t)out;
    a->scale = scale;
    a->whole = scale == 1 && a->out == a->in;
    return 0;
}

int pare_resize_to(struct pare_resize_axis *a, int64_t size, int axis, struct pare_err *err)
{
    if (size < 0 || (!a->in && size))
        return pare_fail(err, PARE_ESHAPE, "axis %d of size %lld cannot be made %lld long", axis,
                         (long long)a->in, (long long)size);
    a->out = size;
    a->scale = a->in && size ? (double)size / (double)a->in : 1;
    a->whole = true;
    return 0;
}

/* The coordinate x / scale in the input.  A given size is exact in rational arithmetic; a scale is
 * divided in float32 if the result is to be rounded, since 3 / 0.6 must not be slightly less than
 * 5. */
static double unscaled(const struct pare_resize *r, const struct pare_resize_axis *a, double x)
{
    if (a->whole)
        return x * (double)a->in / (double)a->out;
    return r->mode == PARE_NEAREST ? (double)((float)x / (float)a->scale) : x / a->scale;
}

/* The coordinate in the input of position k of the result. */
static double origin(const struct pare_resize *r, const struct pare_resize_axis *a, int64_t k)
{
    double x = (double)k, in = (double)a->in, out = (double)a->out;
    double length = a->whole ? out
                             : (double)(float)(a->scale * in); /* the size before truncation */

    switch (r->coord) {
    case PARE_PYTORCH_HALF_PIXEL: return length == 1 ? -0.5 : unscaled(r, a, x + 0.5) - 0.5;
    case PARE_ALIGN_CORNERS: return length == 1 ? 0 : x * (in - 1) / (length - 1);
    case PARE_ASYMMETRIC: return unscaled(r, a, x);
    case PARE_TF_HALF_PIXEL_FOR_NN: return unscaled(r, a, x + 0.5);
    case PARE_TF_CROP_AND_RESIZE:
        if (a->out == 1)
            return (a->start + a->end) * (in - 1) / 2;
        return a->start * (in - 1) + x * (a->end - a->start) * (in - 1) / (out - 1);
    case PARE_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - out / length) + unscaled(r, a, x + 0.5) - 0.5;
    default: return unscaled(r, a, x + 0.5) - 0.5;
    }
}

/* Whether the position takes the extrapolation value.  The last element itself does not, even if
 * rounding moved the position slightly past it. */
static bool is_outside(const struct pare_resize *r, const struct pare_resize_axis *a, double x)
{
    double slack = 1e-12 * (double)a->in;

    return r->coord == PARE_TF_CROP_AND_RESIZE &&
           !(x >= -slack && x <= (double)(a->in - 1) + slack);
}

static int64_t clamped(double x, int64_t in)
{
    return x > 0 ? (x < (double)(in - 1) ? (int64_t)x : in - 1) : 0;
}

/* ---- nearest ------------------------------------------------------------------------------ */

static double rounded(int how, double x, double scale)
{
    switch (how) {
    case PARE_FLOOR: return floor(x);
    case PARE_CEIL: return ceil(x);
    case PARE_ROUND_PREFER_CEIL: return floor(x + 0.5);
    case PARE_SIMPLE: return scale < 1 ? ceil(x) : floor(x);
    default: return ceil(x - 0.5);
    }
}

/* The source of each position along an axis; NULL: the axis is unchanged. */
static int nearest_list(const struct pare_resize *r, const struct pare_resize_axis *a,
                        struct pare_arena *scratch, int64_t **at, struct pare_err *err)
{
    int64_t *v = pare_alloc_raw(scratch, (size_t)a->out, sizeof(*v));
    bool moves = a->in != a->out;

    if (!v)
        return pare_no_memory(err, "for %lld positions", (long long)a->out);
    for (int64_t k = 0; k < a->out; k++) {
        double x = origin(r, a, k);

        v[k] = is_outside(r, a, x) ? -1 : clamped(rounded(r->rounding, x, a->scale), a->in);
        moves |= v[k] != k;
    }
    *at = moves ? v : NULL;
    return 0;
}

/* Lists for all axes, and the value outside of the input. */
static int nearest_pick(const struct pare_resize *r, enum pare_dtype d, struct pare_arena *a,
                        struct pare_pick *p, struct pare_err *err)
{
    int64_t *fill = pare_alloc(a, 2, sizeof(*fill));

    if (!fill)
        return pare_no_memory(err, "to resize");
    for (int i = 0; i < r->rank; i++)
        PARE_TRY(nearest_list(r, &r->axis[i], a, &p->at[i], err));
    if (r->coord == PARE_TF_CROP_AND_RESIZE) {
        p->fill = fill;
        if (d != PARE_STR)
            PARE_TRY(pare_convert(d, fill, PARE_F64, &r->extrapolation, 1, err));
    }
    return 0;
}

static int nearest(const struct pare_node *n, const struct pare_flow *f,
                   const struct pare_resize *r, struct pare_arena *scratch, struct pare_err *err)
{
    struct pare_pick p = { .x = &n->in[0]->t, .y = &n->out[0]->t };

    PARE_TRY(nearest_pick(r, p.y->dtype, scratch, &p, err));
    pare_flow_pick(f, &p);
    return 0;
}

bool pare_resize_pick(const struct pare_node *n, const struct pare_resize *r, struct pare_arena *a,
                      struct pare_pick *p)
{
    struct pare_err err;

    return r->mode == PARE_NEAREST && !nearest_pick(r, n->in[0]->t.dtype, a, p, &err);
}

/* ---- linear and cubic --------------------------------------------------------------------- */

/* Keys' cubic convolution kernel. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Antialiasing stretches the kernel over all source elements that a result element covers. */
static double stretch(const struct pare_resize *r, const struct pare_resize_axis *a)
{
    double least = 0.5 / (double)a->in; /* what covers the input twice */

    if (!r->antialias || a->scale >= 1)
        return 1;
    return a->scale > least ? a->scale : least;
}

/* The taps of one position: weights at floor(x) + 1 - n/2, ... that sum to 1. */
static void weigh(const struct pare_resize *r, const struct pare_resize_axis *a, double x,
                  int64_t taps, double *w, int64_t *at)
{
    double base, s = stretch(r, a), sum = 0;
    int64_t half = taps / 2;

    x = x < (double)-a->in - 8 ? (double)-a->in - 8 : x;
    x = x > 2 * (double)a->in + 8 ? 2 * (double)a->in + 8 : x;
    base = floor(x) + 1 - (double)half;
    for (int64_t i = 0; i < taps; i++) {
        double k = base + (double)i, far = (k - x) * s;
        bool inside = k >= 0 && k <= (double)(a->in - 1);

        w[i] = r->mode == PARE_CUBIC ? cubic(far, r->cubic_a) : fmax(0, 1 - fabs(far));
        if (r->exclude_outside && !inside)
            w[i] = 0;
        at[i] = clamped(k, a->in);
        sum += w[i];
    }
    for (int64_t i = 0; i < taps && sum != 0; i++)
        w[i] /= sum;
}

static int make_taps(const struct pare_resize *r, const struct pare_resize_axis *a,
                     struct pare_arena *scratch, struct pare_taps *t, struct pare_err *err)
{
    double reach = (r->mode == PARE_CUBIC ? 2 : 1) / stretch(r, a);
    size_t out = (size_t)a->out;

    t->n = 2 * (int64_t)ceil(reach);
    if (t->n > INT64_MAX / 16 / a->out)
        return pare_fail(err, PARE_ELIMIT, "%lld positions of %lld taps are too many",
                         (long long)a->out, (long long)t->n);
    t->at = pare_alloc_raw(scratch, out * (size_t)t->n, sizeof(*t->at));
    t->w = pare_alloc_raw(scratch, out * (size_t)t->n, sizeof(*t->w));
    t->outside = pare_alloc_raw(scratch, out, sizeof(*t->outside));
    t->moves = a->in != a->out;
    if (!t->at || !t->w || !t->outside)
        return pare_no_memory(err, "for %zu positions", out);
    for (int64_t k = 0; k < a->out; k++) {
        double x = origin(r, a, k);

        t->outside[k] = is_outside(r, a, x);
        weigh(r, a, t->outside[k] ? 0 : x, t->n, t->w + k * t->n, t->at + k * t->n);
        for (int64_t i = 0; i < t->n; i++)
            t->moves |= t->w[k * t->n + i] != 0 && t->at[k * t->n + i] != k;
        t->moves |= t->outside[k];
    }
    return 0;
}

/* y (outer, out, inner) from x (outer, in, inner). */
struct pass {
    int64_t outer, in, out, inner;
};

#define APPLY(name, real)                                                    \
    PARE_SIMD static void name(real *y, const real *x, const struct pass *p, \
                               const struct pare_taps *t)                    \
    {                                                                        \
        for (int64_t o = 0; o < p->outer; o++, x += p->in * p->inner)        \
            for (int64_t k = 0; k < p->out; k++, y += p->inner)              \
                for (int64_t i = 0; i < t->n; i++) {                         \
                    const real *q = x + t->at[k * t->n + i] * p->inner;      \
                    real w = (real)t->w[k * t->n + i];                       \
                                                                             \
                    for (int64_t j = 0; j < p->inner; j++)                   \
                        y[j] = i ? y[j] + w * q[j] : w * q[j];               \
                }                                                            \
    }
APPLY(apply_float, float)
APPLY(apply_double, double)

/* Backward pass: gx, of x's shape, += taps of gy. */
PARE_SIMD static void apply_back(float *gx, const float *gy, const struct pass *p,
                                 const struct pare_taps *t)
{
    for (int64_t o = 0; o < p->outer; o++, gx += p->in * p->inner)
        for (int64_t k = 0; k < p->out; k++, gy += p->inner)
            for (int64_t i = 0; i < t->n; i++) {
                float *q = gx + t->at[k * t->n + i] * p->inner, w = (float)t->w[k * t->n + i];

                for (int64_t j = 0; j < p->inner; j++)
                    q[j] += w * gy[j];
            }
}

/* Resample one axis of `now`, into new memory. */
static int resize_axis(struct pare_tensor *now, int axis, int64_t out, const struct pare_taps *t,
                       struct pare_arena *scratch, struct pare_err *err)
{
    struct pass p = { pare_span(now, 0, axis), now->dim[axis], out,
                      pare_span(now, axis + 1, now->rank) };
    struct pare_tensor next = *now;

    next.dim[axis] = out;
    PARE_TRY(pare_tensor_alloc(scratch, &next, err));
    if (now->dtype == PARE_F32)
        apply_float(next.data, now->data, &p, t);
    else
        apply_double(next.data, now->data, &p, t);
    *now = next;
    return 0;
}

static void extrapolate(const struct pare_tensor *y, const struct pare_taps *t, double value)
{
    int64_t count = pare_numel(y);
    struct pare_walk w;

    pare_walk_start(&w, y, NULL, 0);
    for (int64_t i = 0; i < count; i++, pare_walk_next(&w))
        for (int a = 0; a < y->rank; a++) {
            if (!t[a].outside[w.idx[a]])
                continue;
            if (y->dtype == PARE_F32)
                pare_f32_mut(y)[i] = (float)value;
            else
                ((double *)y->data)[i] = value;
            break;
        }
}

/* Results of integer types are clamped to their type, then truncated. */
static int store(const struct pare_tensor *y, const struct pare_tensor *from, struct pare_err *err)
{
    int64_t count = pare_numel(y);
    double *v = from->data, low = 0, high = 0;

    switch ((int)y->dtype) {
    case PARE_U8: high = UINT8_MAX; break;
    case PARE_I8: low = INT8_MIN, high = INT8_MAX; break;
    case PARE_U16: high = UINT16_MAX; break;
    case PARE_I16: low = INT16_MIN, high = INT16_MAX; break;
    case PARE_I32: low = INT32_MIN, high = INT32_MAX; break;
    case PARE_U32: high = UINT32_MAX; break;
    case PARE_U64: high = 0x1p64; break;
    default: break; /* the conversion of other types clamps */
    }
    for (int64_t i = 0; high > 0 && i < count; i++)
        v[i] = v[i] < low ? low : v[i] > high ? high : v[i];
    return pare_convert(y->dtype, y->data, from->dtype, from->data, count, err);
}

/* Compute the taps of all axes, and list the axes that change in the order in which they are
 * applied. */
static int plan_passes(const struct pare_resize *r, struct pare_arena *scratch, struct pare_taps *t,
                       struct pare_list *axes, struct pare_err *err)
{
    axes->n = 0;
    for (int i = 0; i < r->rank; i++)
        PARE_TRY(make_taps(r, &r->axis[i], scratch, &t[i], err));
    for (int grow = 0; grow < 2; grow++)
        for (int i = 0; i < r->rank; i++)
            if (t[i].moves && (r->axis[i].out > r->axis[i].in) == grow)
                axes->v[axes->n++] = i;
    return 0;
}

bool pare_resize_taps(const struct pare_resize *r, struct pare_arena *a, struct pare_taps *axis)
{
    struct pare_list axes;
    struct pare_err err;

    return r->mode != PARE_NEAREST && r->coord != PARE_TF_CROP_AND_RESIZE &&
           !plan_passes(r, a, axis, &axes, &err);
}

static int forward_taps(struct pare_node *n, struct pare_ctx *c, const struct pare_resize *r,
                        struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor now = *x;
    struct pare_taps t[PARE_MAX_RANK];
    struct pare_list axes;

    if (x->dtype != PARE_F32 && x->dtype != PARE_F64) {
        now.dtype = PARE_F64;
        PARE_TRY(pare_tensor_alloc(c->scratch, &now, err));
        PARE_TRY(pare_convert(PARE_F64, now.data, x->dtype, x->data, pare_numel(x), err));
    }
    PARE_TRY(plan_passes(r, c->scratch, t, &axes, err));
    for (int k = 0; k < axes.n; k++) {
        int axis = (int)axes.v[k];

        PARE_TRY(resize_axis(&now, axis, r->axis[axis].out, &t[axis], c->scratch, err));
    }
    if (now.data == x->data) {
        PARE_TRY(pare_forward_copy(n, c, err));
        return 0;
    }
    if (r->coord == PARE_TF_CROP_AND_RESIZE)
        extrapolate(&now, t, r->extrapolation);
    return store(&n->out[0]->t, &now, err);
}

/* The passes in reverse order, each from the gradient of its result to that of its input; the last
 * one adds to x's. */
static int backward_taps(struct pare_node *n, struct pare_ctx *c, const struct pare_resize *r,
                         struct pare_err *err)
{
    struct pare_tensor now = n->out[0]->grad;
    struct pare_taps t[PARE_MAX_RANK];
    struct pare_list axes;

    PARE_TRY(plan_passes(r, c->scratch, t, &axes, err));
    if (!axes.n)
        return pare_backward_copy(n, c, err);
    if (r->coord == PARE_TF_CROP_AND_RESIZE) {
        PARE_TRY(pare_tensor_alloc(c->scratch, &now, err));
        memcpy(now.data, n->out[0]->grad.data, (size_t)pare_numel(&now) * sizeof(float));
        extrapolate(&now, t, 0);
    }
    for (int k = axes.n - 1; k >= 0; k--) {
        int axis = (int)axes.v[k];
        struct pass p = { pare_span(&now, 0, axis), r->axis[axis].in, now.dim[axis],
                          pare_span(&now, axis + 1, now.rank) };
        struct pare_tensor next = now;

        next.dim[axis] = p.in;
        next.data = n->in[0]->grad.data;
        if (k) {
            PARE_TRY(pare_tensor_alloc(c->scratch, &next, err));
            memset(next.data, 0, (size_t)pare_numel(&next) * sizeof(float));
        }
        apply_back(next.data, now.data, &p, &t[axis]);
        now = next;
    }
    return 0;
}

int pare_resize_infer(struct pare_node *n, const struct pare_resize *r, struct pare_err *err)
{
    enum pare_dtype d = n->in[0]->t.dtype;
    int64_t dim[PARE_MAX_RANK];

    if (r->mode != PARE_NEAREST && (d == PARE_STR || d == PARE_BOOL))
        return pare_fail(err, PARE_EUNSUPPORTED, "elements of type %s cannot be interpolated",
                         pare_dtype_name(d));
    for (int i = 0; i < r->rank; i++)
        dim[i] = r->axis[i].out;
    return pare_shape_set(&n->out[0]->t, d, r->rank, dim, err);
}

int pare_resize_forward(struct pare_node *n, struct pare_ctx *c, const struct pare_resize *r,
                        struct pare_err *err)
{
    struct pare_flow f;

    if (!pare_flow(&f, n->in[0], n->out[0], false))
        return 0;
    return r->mode == PARE_NEAREST ? nearest(n, &f, r, c->scratch, err)
                                   : forward_taps(n, c, r, err);
}

int pare_resize_backward(struct pare_node *n, struct pare_ctx *c, const struct pare_resize *r,
                         struct pare_err *err)
{
    struct pare_flow f;

    if (!pare_flow(&f, n->in[0], n->out[0], true))
        return 0;
    return r->mode == PARE_NEAREST ? nearest(n, &f, r, c->scratch, err)
                                   : backward_taps(n, c, r, err);
}

double pare_resize_nni_ops(const struct pare_node *n)
{
    static const double linear[] = { 5, 11, 31 }; /* per element, for one, two or three axes */
    const char *mode = pare_attr_text(n, "mode");
    int axes = n->out[0]->t.rank - 2;
    double each = !strcmp(mode, "linear") && axes >= 1 && axes <= 3 ? linear[axes - 1] : 0;

    return (strcmp(mode, "cubic") ? each : 259) * (double)pare_numel(&n->out[0]->t);
}

void pare_resize_ties(const struct pare_node *n, struct pare_ties *t)
{
    for (int i = 0; i < 2 && i < n->in[0]->t.rank; i++)
        if (n->in[0]->t.dim[i] == n->out[0]->t.dim[i])
            pare_tie(t, n->in[0], i, n->out[0], i);
}
