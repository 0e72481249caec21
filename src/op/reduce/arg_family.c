/* arg_family.c - shared by ArgMax and ArgMin. */
#include "arg_family.h"

#include "lanes.h"

const struct pare_opt pare_arg_attrs[] = {
    PARE_INT("axis", offsetof(struct pare_arg, axis), "axis to search", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("keepdims", offsetof(struct pare_arg, keepdims), "keep the axis, with one element", 1,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("select_last_index", offsetof(struct pare_arg, select_last_index),
             "of equal elements select the last", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

int pare_arg_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_arg *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK];
    int axis, rank = 0;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    if (!x->dim[axis])
        return pare_fail(err, PARE_ESHAPE, "axis %d is empty, there is no element to select", axis);
    for (int i = 0; i < x->rank; i++)
        if (i != axis || a->keepdims)
            dim[rank++] = i == axis ? 1 : x->dim[i];
    return pare_shape_set(&n->out[0]->t, PARE_I64, rank, dim, err);
}

/* One lane of each type; of equal elements the first, or the last. */
#define LANE(d, type)                                                          \
    case d:                                                                    \
        for (int64_t k = 1; k < l.len; k++) {                                  \
            type v = ((const type *)x->data)[at + k * l.inner];                \
            type b = ((const type *)x->data)[at + best * l.inner];             \
                                                                               \
            if ((largest ? v > b : v < b) || (a->select_last_index && v == b)) \
                best = k;                                                      \
        }                                                                      \
        break;

void pare_arg_forward(const struct pare_node *n, bool largest)
{
    const struct pare_arg *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    struct pare_lanes l = pare_lanes(x, axis, axis);

    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t at = o * l.len * l.inner + i, best = 0;

            switch ((int)x->dtype) {
                PARE_NUMERIC_TYPES(LANE)
            default: break;
            }
            pare_i64_mut(&n->out[0]->t)[o * l.inner + i] = best;
        }
}

void pare_arg_ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_arg *a = n->attr;
    int rank = n->in[0]->t.rank, axis = (int)(a->axis < 0 ? a->axis + rank : a->axis);

    for (int i = 0; i < rank; i++)
        if (i != axis)
            pare_tie(t, n->in[0], i, n->out[0], i > axis && !a->keepdims ? i - 1 : i);
}
