/* int8_operands.c - find the int8 tensors of dequantized operands and of quantized results. */
#include "int8_operands.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/op.h"
#include "../../op/quant/quant_family.h"

static bool is_8bit(const struct pare_value *v)
{
    return v && (v->t.dtype == PARE_U8 || v->t.dtype == PARE_I8);
}

static bool is_known(const struct pare_value *v)
{
    return v && pare_is_const(v) && v->t.data;
}

bool pare_int8_read(struct pare_int8 *q, struct pare_value *x, const struct pare_value *scale,
                    const struct pare_value *zero)
{
    *q = (struct pare_int8){ .v = x };
    if (!is_8bit(x) || !is_known(scale) || pare_numel(&scale->t) != 1 ||
        scale->t.dtype != PARE_F32 || (zero && (!is_known(zero) || pare_numel(&zero->t) != 1)))
        return false;
    q->scale = (float)pare_get(&scale->t, 0);
    q->zero = zero ? (int)pare_get_int(&zero->t, 0) : 0;
    pare_quant_range(x->t.dtype, &q->lo, &q->hi);
    return q->scale > 0 && isfinite(q->scale);
}

bool pare_int8_operand(struct pare_int8 *q, struct pare_value *x, const struct pare_node *n, int k)
{
    return x && n->n_in > k &&
           pare_int8_read(q, x, n->in[k], n->n_in > k + 1 ? n->in[k + 1] : NULL);
}

bool pare_int8_end_at(struct pare_int8_end *e, const struct pare_node *n, int k)
{
    *e = (struct pare_int8_end){ .lo = -INFINITY, .hi = INFINITY };
    return pare_int8_operand(&e->q, n->out[0], n, k);
}

bool pare_int8_same(const struct pare_int8 *a, const struct pare_int8 *b)
{
    return a->scale == b->scale && a->zero == b->zero && a->v->t.dtype == b->v->t.dtype;
}

static const struct pare_value *zero_of(const struct pare_node *n)
{
    return n->n_in > 2 ? n->in[2] : NULL;
}

bool pare_int8_source(const struct pare_match *v, const struct pare_value *f32, struct pare_int8 *q)
{
    const struct pare_value *x = f32;
    bool viewed = false;

    if (pare_is_fixed(f32) || !pare_is_f32(f32))
        return false;
    while (x->maker && v->lazy[x->maker->id] && x->maker->op->flags & PARE_OP_VIEW) {
        x = x->maker->in[0];
        viewed |= !pare_same_shape(&x->t, &f32->t);
    }
    if (!pare_node_is(x->maker, &pare_op_dequantize_linear) || !v->lazy[x->maker->id] ||
        pare_attr(x->maker, "block_size") != 0 ||
        !pare_int8_operand(q, x->maker->in[0], x->maker, 1))
        return false;
    q->viewed = viewed;
    return true;
}

/* Narrow [lo, hi] by a Relu, or by a Clip with constant bounds. */
static bool bounds(const struct pare_node *n, float *lo, float *hi)
{
    double l, h;

    if (!n->op || !n->op->clamp || !n->op->clamp(n, &l, &h))
        return false;
    *lo = fmaxf(*lo, (float)l);
    *hi = fminf(*hi, (float)h);
    return *lo <= *hi;
}

bool pare_int8_end(const struct pare_match *v, struct pare_value *f32, struct pare_int8_end *e)
{
    struct pare_node *n = pare_only_consumer(v, f32);

    *e = (struct pare_int8_end){ .lo = -INFINITY, .hi = INFINITY };
    for (; n && e->n < PARE_INT8_NODES - 1 && bounds(n, &e->lo, &e->hi); e->n++) {
        e->node[e->n] = n;
        n = pare_only_consumer(v, n->out[0]);
    }
    if (!pare_node_is(n, &pare_op_quantize_linear) || !pare_is_f32(n->in[0]) ||
        n->in[0] != (e->n ? e->node[e->n - 1]->out[0] : f32) || pare_attr(n, "block_size") != 0 ||
        !pare_int8_operand(&e->q, n->out[0], n, 1))
        return false;
    e->node[e->n++] = n;
    return true;
}

/* ---- weights ---------------------------------------------------------------------- */

static int element_at(const struct pare_int8_weight *q, const void *raw, int64_t i)
{
    return q->v->t.dtype == PARE_U8 ? ((const uint8_t *)raw)[i] : ((const int8_t *)raw)[i];
}

/* Index along the axis of element i is i / inner % channels. */
static int64_t inner_of(const struct pare_int8_weight *q)
{
    int64_t inner = 1;

    for (int k = q->axis + 1; k < q->v->t.rank; k++)
        inner *= q->v->t.dim[k];
    return inner;
}

static int zero_at(const struct pare_int8_weight *q, int64_t channel)
{
    if (!q->zero)
        return 0;
    return (int)pare_get_int(&q->zero->t, pare_numel(&q->zero->t) == 1 ? 0 : channel);
}

float pare_int8_scale(const struct pare_int8_weight *q, int64_t channel)
{
    if (!q->scale)
        return 1;
    return (float)pare_get(&q->scale->t, pare_numel(&q->scale->t) == 1 ? 0 : channel);
}

/* Smallest and largest of n bytes, and 0. */
PARE_SIMD static void range_of(const void *raw, bool is_signed, int64_t n, int *lo, int *hi)
{
    const uint8_t *u = raw, flip = is_signed ? 128 : 0;
    uint8_t least = flip, most = flip;

    for (int64_t i = 0; i < n; i++) {
        uint8_t w = u[i] ^ flip; /* in the order of the values */

        least = w < least ? w : least;
        most = w > most ? w : most;
    }
    *lo = least - flip;
    *hi = most - flip;
}

/* Smallest and largest w - zero, into q->reach. */
static bool set_reach(struct pare_int8_weight *q)
{
    int64_t inner = inner_of(q), n = pare_numel(&q->v->t);
    const void *raw = pare_const_raw(q->v);
    int lo = 0, hi = 0;

    if (!q->zero) {
        range_of(raw, q->v->t.dtype == PARE_I8, n, &lo, &hi);
        n = 0;
    }
    for (int64_t i = 0; i < n; i += inner) {
        int zero = zero_at(q, i / inner % q->channels);

        for (int64_t k = i; k < i + inner; k++) {
            int w = element_at(q, raw, k) - zero;

            lo = w < lo ? w : lo;
            hi = w > hi ? w : hi;
        }
    }
    q->reach = -lo > hi ? -lo : hi;
    return lo >= INT8_MIN && hi <= INT8_MAX;
}

static bool all_zero(const struct pare_tensor *t)
{
    for (int64_t i = 0; i < pare_numel(t); i++)
        if (pare_get_int(t, i))
            return false;
    return true;
}

static bool fits(const struct pare_value *v, int64_t channels)
{
    int64_t n = v ? pare_numel(&v->t) : 1;

    return !v || (is_known(v) && (n == 1 || (n == channels && v->t.rank == 1)));
}

bool pare_int8_weight_read(struct pare_int8_weight *q, const struct pare_value *w,
                           const struct pare_value *scale, const struct pare_value *zero, int axis)
{
    *q = (struct pare_int8_weight){ .v = w, .scale = scale, .zero = zero, .axis = axis };
    if (!is_8bit(w) || !pare_is_const(w) || !pare_const_raw(w) || axis >= w->t.rank ||
        !pare_numel(&w->t))
        return false;
    q->channels = w->t.dim[axis];
    if (!fits(scale, q->channels) || !fits(zero, q->channels))
        return false;
    if (zero && all_zero(&zero->t))
        q->zero = NULL;
    if (!set_reach(q))
        return false;
    for (int64_t i = 0; scale && i < pare_numel(&scale->t); i++)
        if (!(pare_get(&scale->t, i) > 0) || !isfinite(pare_get(&scale->t, i)))
            return false;
    return true;
}

bool pare_int8_weight(const struct pare_value *w, int axis, struct pare_int8_weight *q)
{
    const struct pare_node *n = w->maker;
    int along;

    if (!pare_node_is(n, &pare_op_dequantize_linear) || !pare_is_const(w) || !pare_is_f32(w) ||
        pare_attr(n, "block_size") != 0)
        return false;
    along = (int)pare_attr(n, "axis");
    along += along < 0 ? w->t.rank : 0;
    if (pare_numel(&n->in[1]->t) != 1 && along != axis)
        return false;
    return pare_int8_weight_read(q, n->in[0], n->in[1], zero_of(n), axis);
}

struct pare_value *pare_int8_bias(struct pare_value *bias, const struct pare_int8 *x,
                                  const struct pare_int8_weight *w)
{
    const struct pare_node *n = bias ? bias->maker : NULL;
    const struct pare_value *scale, *zero;

    if (!pare_node_is(n, &pare_op_dequantize_linear) || n->in[0]->t.dtype != PARE_I32 ||
        !is_known(n->in[0]) || pare_numel(&n->in[0]->t) != w->channels)
        return bias;
    scale = n->in[1];
    zero = zero_of(n);
    if (!fits(scale, w->channels) || scale->t.dtype != PARE_F32 ||
        (zero && (!fits(zero, w->channels) || !all_zero(&zero->t))))
        return bias;
    for (int64_t i = 0; i < w->channels; i++) {
        double have = pare_get(&scale->t, pare_numel(&scale->t) == 1 ? 0 : i);
        double want = (double)x->scale * (double)pare_int8_scale(w, i);

        if (!(fabs(have - want) <= 1e-6 * want))
            return bias;
    }
    return n->in[0];
}

const int8_t *pare_int8_centered(const struct pare_int8_weight *q, struct pare_arena *a)
{
    int64_t inner = inner_of(q), n = pare_numel(&q->v->t);
    const void *raw = pare_const_raw(q->v);
    int8_t *w;

    if (!q->zero)
        return raw;
    w = pare_alloc_raw(a, (size_t)n, 1);
    for (int64_t i = 0; w && i < n; i += inner) {
        int zero = zero_at(q, i / inner % q->channels);

        for (int64_t k = i; k < i + inner; k++)
            w[k] = (int8_t)(element_at(q, raw, k) - zero);
    }
    return w;
}

bool pare_int8_exact(const struct pare_backend *b, const struct pare_int8 *x,
                     const struct pare_int8_weight *w)
{
    return b->vnni || (x->v->t.dtype == PARE_U8 && w->reach <= 64);
}

struct pare_ncs pare_ncs(const struct pare_tensor *t)
{
    struct pare_ncs d = { t->rank > 0 ? t->dim[0] : 1, t->rank > 1 ? t->dim[1] : 1, 1 };

    for (int i = 2; i < t->rank; i++)
        d.s *= t->dim[i];
    return d;
}

int pare_int8_keep(const struct pare_match *v, const struct pare_int8 *q)
{
    return q->viewed || pare_layout_of(v, q->v) != PARE_CHANNELS_LAST ? 1 : PARE_CHANNELS_LAST;
}

/* ---- loops ------------------------------------------------------------------------ */

PARE_SIMD void pare_int8_dequantize(const struct pare_int8 *q, const void *x, int64_t from,
                                    float *f32, int64_t n)
{
    const uint8_t *u = (const uint8_t *)x + from;
    const int8_t *i8 = (const int8_t *)x + from;
    float scale = q->scale;
    int zero = q->zero;

    if (q->v->t.dtype == PARE_U8)
        for (int64_t i = 0; i < n; i++)
            f32[i] = (float)(u[i] - zero) * scale;
    else
        for (int64_t i = 0; i < n; i++)
            f32[i] = (float)(i8[i] - zero) * scale;
}

PARE_SIMD void pare_int8_quantize(const struct pare_int8_end *e, const float *f32, void *y,
                                  int64_t from, int64_t n)
{
    const struct pare_int8 q = e->q;
    uint8_t *u = (uint8_t *)y + from;
    int8_t *i8 = (int8_t *)y + from;
    float lo = e->lo, hi = e->hi, scale = q.scale;

    if (q.v->t.dtype == PARE_U8)
        for (int64_t i = 0; i < n; i++) {
            float v = f32[i] > lo ? f32[i] : lo;

            u[i] = (uint8_t)(int)pare_int8_round(&q, (v < hi ? v : hi) / scale);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            float v = f32[i] > lo ? f32[i] : lo;

            i8[i] = (int8_t)(int)pare_int8_round(&q, (v < hi ? v : hi) / scale);
        }
}

void pare_int8_bounds(const struct pare_int8_out *o, float *lo, float *hi)
{
    enum pare_dtype type = o->out->t.dtype;
    float least = (float)(o->q.lo - o->q.zero), most = (float)(o->q.hi - o->q.zero);

    *lo = o->lo;
    *hi = o->hi;
    if (type != PARE_U8 && type != PARE_I8)
        return;
    *lo = *lo > least ? *lo : least;
    *lo = *lo < most ? *lo : most; /* the bounds may be outside the type's range */
    *hi = *hi < most ? *hi : most;
    *hi = *hi > least ? *hi : least;
}

/* A sum in units of the result, clamped. */
PARE_SIMD_PART float scaled_sum(int32_t acc, float b, float f, const float bounds[2])
{
    float v = ((float)acc + b) * f;

    v = v > bounds[0] ? v : bounds[0];
    return v < bounds[1] ? v : bounds[1];
}

/* The same with bounds of the type's range (pare_int8_bounds()), rounded half to even. */
PARE_SIMD_PART int rounded_sum(int32_t acc, float b, float f, const float bounds[2], int zero)
{
    const float magic = 12582912.0f; /* see pare_int8_round() */

    return (int)(scaled_sum(acc, b, f, bounds) + magic - magic) + zero;
}

/* A loop for each type, and restrict: otherwise compilers do not vectorize. */
PARE_SIMD void pare_int8_finish(const struct pare_int8_out *o, const int32_t *restrict acc,
                                int64_t channel, int64_t n, void *restrict y)
{
    const float *restrict f = o->f + channel, *restrict b = o->b + channel;
    const int zero = o->q.zero;
    float bounds[2];
    float *restrict f32 = y;
    uint8_t *restrict u8 = y;
    int8_t *restrict i8 = y;

    pare_int8_bounds(o, &bounds[0], &bounds[1]);
    switch ((int)o->out->t.dtype) {
    case PARE_I32: memcpy(y, acc, (size_t)n * sizeof(*acc)); break;
    case PARE_F32:
        for (int64_t i = 0; i < n; i++)
            f32[i] = scaled_sum(acc[i], b[i], f[i], bounds);
        break;
    case PARE_U8:
        for (int64_t i = 0; i < n; i++)
            u8[i] = (uint8_t)rounded_sum(acc[i], b[i], f[i], bounds, zero);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            i8[i] = (int8_t)rounded_sum(acc[i], b[i], f[i], bounds, zero);
        break;
    }
}
