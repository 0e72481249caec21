/* max_unpool.c - MaxUnpool: the inverse of MaxPool: values at their indices, zeros elsewhere.
 *
 * Indices refer to the assumed input of MaxPool, whose spatial sizes are
 *     (in - 1) * stride - pads + kernel;
 * a different output_shape only adds or removes elements at the end of axes.
 */
#include "window.h"

static const struct pare_opt attrs[] = { PARE_WINDOW_KERNEL(true), PARE_WINDOW_PADS,
                                         PARE_WINDOW_STRIDES, PARE_OPT_END };

/* The tensor that indices refer to. */
static int source(const struct pare_node *n, struct pare_tensor *s, struct pare_err *err)
{
    const struct pare_window_attr *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int nd = x->rank - 2;
    char buf[PARE_SHAPE_TEXT];

    if (nd < 1 || a->kernel_shape.n != nd || (a->strides.n && a->strides.n != nd) ||
        (a->pads.n && a->pads.n != 2 * nd))
        return pare_fail(err, PARE_ESHAPE,
                         "X is %s, which kernel_shape, strides or pads do not "
                         "fit",
                         pare_shape_text(x, buf, sizeof(buf)));
    pare_like(s, x);
    for (int i = 0; i < nd; i++) {
        int64_t stride = a->strides.n ? a->strides.v[i] : 1;
        int64_t pads = a->pads.n ? a->pads.v[i] + a->pads.v[nd + i] : 0;

        if (x->dim[i + 2] < 1 || x->dim[i + 2] > INT64_MAX / 4 / stride)
            return pare_fail(err, PARE_ESHAPE, "X is %s, which cannot be the output of a pool",
                             pare_shape_text(x, buf, sizeof(buf)));
        s->dim[i + 2] = (x->dim[i + 2] - 1) * stride - pads + a->kernel_shape.v[i];
    }
    return pare_tensor_size(s, NULL, NULL, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor s = { 0 };
    char buf[PARE_SHAPE_TEXT];
    int rank = x->rank;

    PARE_TRY(source(n, &s, err));
    if (!pare_same_shape(x, &n->in[1]->t))
        return pare_fail(err, PARE_ESHAPE, "the indices are %s, expected the shape of X",
                         pare_shape_text(&n->in[1]->t, buf, sizeof(buf)));
    if (n->n_in > 2 && n->in[2]) {
        PARE_TRY(pare_need(n, 2, err));
        PARE_TRY(pare_int_list(&n->in[2]->t, s.dim, PARE_MAX_RANK, &rank, err));
        if (rank != x->rank || s.dim[0] != x->dim[0] || s.dim[1] != x->dim[1])
            return pare_fail(err, PARE_ESHAPE, "X is %s, which output_shape does not fit",
                             pare_shape_text(x, buf, sizeof(buf)));
    }
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, s.dim, err);
}

/* The position in y of `index` in s; -1: y has no such position. */
static int64_t place(const struct pare_tensor *s, const struct pare_tensor *y, int64_t index)
{
    int64_t at = 0, scale = 1;

    for (int i = s->rank - 1; i >= 0; i--) {
        int64_t k = index % s->dim[i];

        if (k >= y->dim[i])
            return -1;
        at += k * scale;
        scale *= y->dim[i];
        index /= s->dim[i];
    }
    return at;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    const int64_t *index = pare_i64(&n->in[1]->t);
    struct pare_tensor s = { 0 };
    int64_t total, room = pare_numel(y);

    (void)c;
    PARE_TRY(source(n, &s, err));
    PARE_TRY(pare_tensor_size(&s, &total, NULL, err));
    for (int64_t i = 0; i < room; i++)
        pare_f32_mut(y)[i] = 0;
    for (int64_t i = 0; i < pare_numel(x); i++) {
        int64_t at = index[i] < 0 || index[i] >= total ? -1 : place(&s, y, index[i]);

        if (at < 0)
            return pare_fail(err, PARE_ESHAPE, "index %lld is outside the output",
                             (long long)index[i]);
        pare_f32_mut(y)[at] = pare_f32(x)[i];
    }
    return 0;
}

/* If several values have the same index, the last one is in the output, and only it gets the
 * gradient. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;
    const int64_t *index = pare_i64(&n->in[1]->t);
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    struct pare_tensor s = { 0 };
    bool *taken;

    if (!gx || !gy)
        return 0;
    PARE_TRY(source(n, &s, err));
    taken = pare_alloc(c->scratch, (size_t)pare_numel(y), sizeof(*taken));
    if (!taken)
        return pare_no_memory(err, "for the used positions");
    for (int64_t i = pare_numel(&n->in[0]->t) - 1; i >= 0; i--) {
        int64_t at = place(&s, y, index[i]);

        if (!taken[at])
            gx[i] += gy[at];
        taken[at] = true;
    }
    return 0;
}

const struct pare_op pare_op_max_unpool = {
    .type = "MaxUnpool",
    .doc = "Put values back at the indices of MaxPool.",
    .since = 9,
    .in = "TLL?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
