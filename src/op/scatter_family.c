/* scatter_family.c - what GatherElements, Scatter, ScatterElements and ScatterND share. */
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
    return pare_fail(err, PARE_EUNSUPPORTED, "reduction '%s' of %s is not handled", how,
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

/* Sums and products wrap around as numpy's do, which for every width is arithmetic modulo 2^64
 * cut short. */
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
