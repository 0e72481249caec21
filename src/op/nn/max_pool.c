/* max_pool.c - MaxPool: the largest element of each window, and its index. */
#include <math.h>

#include "window.h"

static const struct pare_opt attrs[] = {
    PARE_WINDOW_AUTO_PAD,  PARE_WINDOW_INT(ceil_mode, "round the output's size up", 0, 0, 1),
    PARE_WINDOW_DILATIONS, PARE_WINDOW_KERNEL(true),
    PARE_WINDOW_PADS,      PARE_WINDOW_INT(storage_order, "1: indices are column-major", 0, 0, 1),
    PARE_WINDOW_STRIDES,   PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_pool_infer(n, err));
    if (n->n_out > 1 && n->out[1]) {
        pare_like(&n->out[1]->t, &n->out[0]->t);
        n->out[1]->t.dtype = PARE_I64;
        PARE_TRY(pare_tensor_size(&n->out[1]->t, NULL, NULL, err));
    }
    return 0;
}

/* The column-major index of an element of X: the first axis of its plane varies fastest. */
static int64_t by_columns(const struct pare_pool *p, int64_t at)
{
    const int64_t *in = p->w.in;
    int64_t x = at % in[2], h = at / in[2] % in[1], d = at / in[2] / in[1];

    return d + in[0] * (h + in[1] * x);
}

/* The largest element of one window; NaN counts as largest.  *at is its index in the plane, -1 if
 * dilation makes the window step over the whole input. */
#define BEST(name, ctype, least, is_nan)                                      \
    static ctype name(const struct pare_pool *p, const ctype *x, int64_t *at) \
    {                                                                         \
        ctype best = (ctype)(least);                                          \
                                                                              \
        *at = -1;                                                             \
        for (int64_t kd = p->lo[0]; kd < p->hi[0]; kd++)                      \
            for (int64_t kh = p->lo[1]; kh < p->hi[1]; kh++)                  \
                for (int64_t kw = p->lo[2]; kw < p->hi[2]; kw++) {            \
                    int64_t i = pare_pool_at(p, kd, kh, kw);                  \
                    ctype v = x[i];                                           \
                                                                              \
                    if (*at < 0 || v > best || (is_nan)) {                    \
                        best = v;                                             \
                        *at = i;                                              \
                    }                                                         \
                }                                                             \
        return best;                                                          \
    }
BEST(best_f32, float, -INFINITY, isnan(v) && !isnan(best))
BEST(best_f64, double, -INFINITY, isnan(v) && !isnan(best))
BEST(best_u8, uint8_t, 0, false)
BEST(best_i8, int8_t, INT8_MIN, false)
#undef BEST

static int64_t pool(const struct pare_pool *p, const struct pare_tensor *x,
                    const struct pare_tensor *y, int64_t i)
{
    int64_t at;

    switch ((int)x->dtype) {
#define CASE(d, ctype, best) \
    case d: ((ctype *)y->data)[i] = best(p, (const ctype *)x->data + p->plane, &at); break;
        CASE(PARE_F64, double, best_f64)
        CASE(PARE_U8, uint8_t, best_u8)
        CASE(PARE_I8, int8_t, best_i8)
#undef CASE
    default: pare_f32_mut(y)[i] = best_f32(p, pare_f32(x) + p->plane, &at); break;
    }
    return at;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_window_attr *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t *index = n->n_out > 1 && n->out[1] ? pare_i64_mut(&n->out[1]->t) : NULL;
    int64_t total = pare_numel(y);
    struct pare_window w;
    struct pare_pool p;

    (void)c;
    PARE_TRY(pare_pool_window(n, &w, err));
    pare_pool_start(&p, &w);
    for (int64_t i = 0; i < total; i++, pare_pool_next(&p)) {
        int64_t at = pool(&p, x, y, i);

        if (index && at >= 0)
            index[i] = p.plane + (a->storage_order ? by_columns(&p, at) : at);
        else if (index)
            index[i] = -1;
    }
    return 0;
}

/* The gradient of a window goes to the element that forward() selected. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t total = pare_numel(&n->out[0]->t), at;
    struct pare_window w;
    struct pare_pool p;

    (void)c;
    if (!gx || !gy)
        return 0;
    PARE_TRY(pare_pool_window(n, &w, err));
    pare_pool_start(&p, &w);
    for (int64_t i = 0; i < total; i++, pare_pool_next(&p)) {
        best_f32(&p, x + p.plane, &at);
        if (at >= 0)
            gx[p.plane + at] += gy[i];
    }
    return 0;
}

const struct pare_op pare_op_max_pool = {
    .type = "MaxPool",
    .doc = "Largest element of each window.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOATS | PARE_T(PARE_U8) | PARE_T(PARE_I8),
    .min_out = 1,
    .max_out = 2,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .flags = PARE_OP_HOMOGENEOUS | PARE_OP_POOL | PARE_OP_MOVES,
    .torch = "MaxPool#d",
    .int8_since = 12,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_channels,
    .constant_channel = pare_constant_channel_same,
};
