/* scatter_family.c - shared by GatherElements, Scatter, ScatterElements and ScatterND. */
#include "scatter_family.h"

#include <math.h>

int pare_fits_beside(const struct pare_tensor *x, const struct pare_tensor *at, int axis,
                     struct pare_err *err)
{
    char bx[PARE_SHAPE_TEXT], bi[PARE_SHAPE_TEXT];
    bool fits = x->rank == at->rank;

    for (int i = 0; fits && i < x->rank; i++)
        fits = i == axis || at->dim[i] <= x->dim[i];
    if (fits)
        return 0;
    return pare_fail(err, PARE_ESHAPE, "indices %s do not fit data %s along axis %d",
                     pare_shape_text(at, bi, sizeof(bi)), pare_shape_text(x, bx, sizeof(bx)), axis);
}

int64_t pare_walk_beside(struct pare_walk *w, const struct pare_tensor *x,
                         const struct pare_tensor *at, int axis)
{
    int64_t step;

    pare_walk_start(w, at, NULL, 0);
    w->n = 1;
    pare_strides(x, w->stride[0]);
    step = w->stride[0][axis];
    w->stride[0][axis] = 0;
    return step;
}

int pare_check_reduction(enum pare_dtype d, const char *how, struct pare_err *err)
{
    if (!strcmp(how, "none") || (PARE_T_NUMERIC | PARE_T(PARE_F16) | PARE_T(PARE_BF16)) & PARE_T(d))
        return 0;
    return pare_fail(err, PARE_EUNSUPPORTED, "reduction '%s' of %s is not supported", how,
                     pare_dtype_name(d));
}

static double combine_real(char how, double a, double b)
{
    switch (how) {
    case '+': return a + b;
    case '*': return a * b;
    case '<': return b < a || isnan(b) ? b : a;
    default: return b > a || isnan(b) ? b : a;
    }
}

/* Sums and products wrap around as in numpy: arithmetic modulo 2^64, truncated to the type. */
#define COMBINE(d, ctype)                                                 \
    case d: {                                                             \
        ctype *p = dst;                                                   \
        const ctype *q = src;                                             \
                                                                          \
        for (int64_t i = 0; i < count; i++)                               \
            p[i] = op == '+'   ? (ctype)((uint64_t)p[i] + (uint64_t)q[i]) \
                   : op == '*' ? (ctype)((uint64_t)p[i] * (uint64_t)q[i]) \
                   : op == '<' ? (q[i] < p[i] ? q[i] : p[i])              \
                               : (q[i] > p[i] ? q[i] : p[i]);             \
        break;                                                            \
    }
#define COMBINE_REAL(d, ctype)                                          \
    case d: {                                                           \
        ctype *p = dst;                                                 \
        const ctype *q = src;                                           \
                                                                        \
        for (int64_t i = 0; i < count; i++)                             \
            p[i] = (ctype)combine_real(op, (double)p[i], (double)q[i]); \
        break;                                                          \
    }

void pare_combine(enum pare_dtype d, const char *how, void *dst, const void *src, int64_t count)
{
    char op = "+*<>"[pare_choice("add|mul|min|max", how)];

    if (!strcmp(how, "none")) {
        pare_copy_one(dst, src, (size_t)count * pare_dtype_size(d));
        return;
    }
    switch ((int)d) {
        PARE_INT_TYPES(COMBINE)
        PARE_FLOAT_TYPES(COMBINE_REAL)
    case PARE_F16:
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)dst)[i] = pare_f32_to_f16(
                (float)combine_real(op, (double)pare_f16_to_f32(((const uint16_t *)dst)[i]),
                                    (double)pare_f16_to_f32(((const uint16_t *)src)[i])));
        break;
    case PARE_BF16:
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)dst)[i] = pare_f32_to_bf16(
                (float)combine_real(op, (double)pare_bf16_to_f32(((const uint16_t *)dst)[i]),
                                    (double)pare_bf16_to_f32(((const uint16_t *)src)[i])));
        break;
    default: break;
    }
}

int pare_scatter_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_scatter *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *at = &n->in[1]->t, *fresh = &n->in[2]->t;
    char bi[PARE_SHAPE_TEXT], bn[PARE_SHAPE_TEXT];
    int axis;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_fits_beside(x, at, axis, err));
    if (!pare_same_shape(at, fresh))
        return pare_fail(err, PARE_ESHAPE, "indices are %s but updates are %s",
                         pare_shape_text(at, bi, sizeof(bi)),
                         pare_shape_text(fresh, bn, sizeof(bn)));
    PARE_TRY(pare_check_reduction(x->dtype, a->reduction, err));
    pare_like(&n->out[0]->t, x);
    return 0;
}

int pare_scatter_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_scatter *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t, *fresh = &n->in[2]->t;
    size_t size = pare_dtype_size(y->dtype);
    int64_t count = pare_numel(fresh), *at, step;
    struct pare_walk w;
    int axis;

    PARE_TRY(pare_forward_copy(n, c, err));
    if (pare_is_empty(fresh))
        return 0;
    PARE_TRY(pare_axis(a->axis, y->rank, &axis, err));
    PARE_TRY(pare_indices(c->scratch, &n->in[1]->t, y->dim[axis], &at, err));
    step = pare_walk_beside(&w, y, fresh, axis);
    for (int64_t i = 0; i < count; i++, pare_walk_next(&w))
        pare_combine(y->dtype, a->reduction,
                     (char *)y->data + (size_t)(w.at[0] + at[i] * step) * size,
                     (const char *)fresh->data + (size_t)i * size, 1);
    return 0;
}

/* Without reduction, the last update of an element counts; replaced updates have no gradient. */
static void back_replaced(struct pare_node *n, const struct pare_scattered *s, bool *taken)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad), *gu = pare_f32_mut(&n->in[2]->grad);
    int64_t total = pare_numel(&n->out[0]->t);

    for (int64_t r = s->rows - 1; r >= 0; r--) {
        bool *t = taken + s->to[r] / s->run;

        for (int64_t i = 0; gu && !*t && i < s->run; i++)
            gu[r * s->run + i] += gy[s->to[r] + i];
        *t = true;
    }
    for (int64_t i = 0; gx && i < total; i++)
        gx[i] += taken[i / s->run] ? 0 : gy[i];
}

static void back_added(struct pare_node *n, const struct pare_scattered *s)
{
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad), *gu = pare_f32_mut(&n->in[2]->grad);
    int64_t total = pare_numel(&n->out[0]->t);

    for (int64_t i = 0; gx && i < total; i++)
        gx[i] += gy[i];
    for (int64_t r = 0; gu && r < s->rows; r++)
        for (int64_t i = 0; i < s->run; i++)
            gu[r * s->run + i] += gy[s->to[r] + i];
}

int pare_scatter_back(struct pare_node *n, const struct pare_scattered *s,
                      struct pare_arena *scratch, struct pare_err *err)
{
    bool *taken;

    if (!n->in[0]->grad.data && !n->in[2]->grad.data)
        return 0;
    if (!strcmp(s->reduction, "add")) {
        back_added(n, s);
        return 0;
    }
    if (strcmp(s->reduction, "none"))
        return pare_fail(
            err, PARE_EUNSUPPORTED,
            "the gradient of reduction '%s' is not supported, only of 'none' and 'add'",
            s->reduction);
    taken = pare_alloc(scratch, (size_t)(pare_numel(&n->out[0]->t) / s->run), sizeof(*taken));
    if (!taken)
        return pare_no_memory(err, "for the gradient of an update");
    back_replaced(n, s, taken);
    return 0;
}

int pare_scatter_backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_scatter *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t, *fresh = &n->in[2]->t;
    struct pare_scattered s = { a->reduction, NULL, pare_numel(fresh), 1 };
    int64_t *at = NULL, step;
    struct pare_walk w;
    int axis;

    if (!n->out[0]->grad.data || pare_is_empty(y))
        return 0;
    PARE_TRY(pare_axis(a->axis, y->rank, &axis, err));
    PARE_TRY(pare_indices(c->scratch, &n->in[1]->t, y->dim[axis], &at, err));
    step = pare_walk_beside(&w, y, fresh, axis);
    for (int64_t i = 0; i < s.rows; i++, pare_walk_next(&w))
        at[i] = w.at[0] + at[i] * step;
    s.to = at;
    return pare_scatter_back(n, &s, c->scratch, err);
}
