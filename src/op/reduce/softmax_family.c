/* softmax_family.c - shared by Softmax, LogSoftmax and Hardmax. */
#include "softmax_family.h"

#include "lanes.h"

#define ABSENT (-100) /* the default depends on the opset */

const struct pare_opt pare_softmax_attrs[] = {
    PARE_INT("axis", offsetof(struct pare_softmax, axis),
             "the axis that sums to 1 (default: 1 before opset 13, then -1)", ABSENT,
             -PARE_MAX_RANK, PARE_MAX_RANK),
    PARE_OPT_END
};

int pare_softmax_axis(const struct pare_node *n, bool *flatten)
{
    const struct pare_softmax *a = n->attr;
    int axis = (int)a->axis, rank = n->in[0]->t.rank;

    *flatten = n->version < 13;
    if (axis == ABSENT)
        axis = *flatten ? 1 : -1;
    return axis < 0 ? axis + rank : axis;
}

int pare_softmax_row_axis(const struct pare_node *n)
{
    bool flatten;

    return pare_softmax_axis(n, &flatten);
}

int pare_softmax_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_softmax *a = n->attr;
    int rank = n->in[0]->t.rank, axis;
    bool flatten;

    axis = pare_softmax_axis(n, &flatten);
    if (axis < 0 || axis > rank || (axis == rank && !flatten))
        return pare_fail(err, PARE_ESHAPE, "axis %d is outside a tensor of %d dimensions",
                         a->axis == ABSENT ? axis : (int)a->axis, rank);
    return pare_infer_same(n, err);
}

void pare_softmax_each(const struct pare_node *n,
                       void (*f)(const float *x, float *y, int64_t len, int64_t inner))
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    bool flatten;
    int axis = pare_softmax_axis(n, &flatten);
    struct pare_lanes l = pare_lanes(x, axis, flatten ? x->rank - 1 : axis);

    for (int64_t o = 0; o < l.outer; o++)
        f(pare_f32_mut(x) + o * l.len * l.inner, pare_f32_mut(y) + o * l.len * l.inner, l.len,
          l.inner);
}

int pare_softmax_backward(const struct pare_node *n,
                          void (*f)(const float *y, const float *gy, float *gx, int64_t len,
                                    int64_t inner))
{
    const struct pare_tensor *x = &n->in[0]->t;
    const float *y = pare_f32(&n->out[0]->t), *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    bool flatten;
    int axis = pare_softmax_axis(n, &flatten);
    struct pare_lanes l = pare_lanes(x, axis, flatten ? x->rank - 1 : axis);

    for (int64_t o = 0; gx && gy && o < l.outer; o++) {
        int64_t at = o * l.len * l.inner;

        f(y + at, gy + at, gx + at, l.len, l.inner);
    }
    return 0;
}

void pare_softmax_ties(const struct pare_node *n, struct pare_ties *t)
{
    bool flatten;
    int axis = pare_softmax_axis(n, &flatten);

    pare_ties_except(n, flatten ? ~0u << axis : 1u << axis, t);
}
