/* elementwise.c - elementwise operators with broadcasting, row by row. */
#include "elementwise.h"

void pare_rows_start(struct pare_rows *r, const struct pare_tensor *y,
                     const struct pare_tensor *const *in, int n)
{
    int64_t total = pare_numel(y);
    int axis;

    *r = (struct pare_rows){ .len = 1 };
    pare_walk_start(&r->w, y, in, n);
    if (!total)
        return;
    for (axis = y->rank - 1; axis >= 0; axis--) {
        bool joins = true;

        if (y->dim[axis] == 1)
            continue;
        for (int k = 0; k < n; k++)
            if (r->len == 1)
                r->step[k] = (int)r->w.stride[k][axis];
            else
                joins = joins && r->w.stride[k][axis] == r->step[k] * r->len;
        if (!joins)
            break;
        r->len *= y->dim[axis];
    }
    r->w.rank = axis + 1; /* iterate over the axes that are not part of the row */
    r->n = total / r->len;
}

int pare_apply_map2(const struct pare_node *n, const struct pare_tensor *const *in,
                    const struct pare_tensor *y, struct pare_err *err)
{
    struct pare_rows r;

    if (!n->op->map2 || y->dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED, "%s is not supported for %s", n->type,
                         pare_dtype_name(in[0]->dtype));
    pare_rows_start(&r, y, in, 2);
    for (int64_t i = 0; i < r.n; i++, pare_walk_next(&r.w))
        n->op->map2(n, pare_f32(in[0]) + r.w.at[0], r.step[0], pare_f32(in[1]) + r.w.at[1],
                    r.step[1], pare_f32_mut(y) + i * r.len, r.len);
    return 0;
}

int pare_forward_map2(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *in[2] = { &n->in[0]->t, &n->in[1]->t };

    (void)c;
    return pare_apply_map2(n, in, &n->out[0]->t, err);
}

void pare_spread(const struct pare_tensor *y, const struct pare_tensor *x)
{
    size_t size = pare_dtype_size(y->dtype), len;
    struct pare_rows r;

    pare_rows_start(&r, y, &x, 1);
    len = (size_t)r.len * size;
    for (int64_t i = 0; i < r.n; i++, pare_walk_next(&r.w)) {
        const char *from = (const char *)x->data + (size_t)r.w.at[0] * size;
        char *to = (char *)y->data + (size_t)i * len;

        if (r.step[0])
            memcpy(to, from, len);
        else
            for (size_t k = 0; k < len; k += size)
                memcpy(to + k, from, size);
    }
}

int pare_apply_all(const struct pare_node *n, pare_apply2_fn apply, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t, *in[2] = { &n->in[0]->t, NULL };

    for (int k = 1; k < n->n_in; k++) {
        if (!n->in[k])
            continue;
        in[1] = &n->in[k]->t;
        PARE_TRY(apply(n, in, y, err));
        in[0] = y;
    }
    if (in[0] != y)
        pare_spread(y, in[0]);
    return 0;
}

#define NO_AXIS (-1000)

const struct pare_opt pare_old_broadcast_attrs[] = {
    PARE_INT("axis", offsetof(struct pare_old_broadcast, axis),
             "before opset 7: axis where the second input's shape starts", NO_AXIS, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("broadcast", offsetof(struct pare_old_broadcast, broadcast),
             "before opset 7: allow a smaller second input", 0, 0, 1),
    PARE_OPT_END
};

int pare_infer_arithmetic(struct pare_node *n, struct pare_err *err)
{
    const struct pare_old_broadcast *old = n->attr;
    const struct pare_tensor *a = &n->in[0]->t, *b = &n->in[1]->t;
    int axis;

    if (n->version < 7 && old->axis != NO_AXIS) {
        PARE_TRY(pare_axis(old->axis, a->rank, &axis, err));
        if (axis + b->rank != a->rank)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "broadcasting at axis %d of %d dimensions is not supported", axis,
                             a->rank);
    }
    return pare_infer_broadcast(n, err);
}
