/* one_hot.c - OneHot: for every index a row of `depth` elements, `off` except at the index.
 *
 * An index outside [-depth, depth) gives a row of `off`.
 */
#include "../shape/movement.h"

struct one_hot {
    int64_t axis;
};

static const struct pare_opt one_hot_attrs[] = {
    PARE_INT("axis", offsetof(struct one_hot, axis), "position of the new axis in the result", -1,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END,
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct one_hot *a = n->attr;
    const struct pare_tensor *at = &n->in[0]->t, *depth = &n->in[1]->t, *values = &n->in[2]->t;
    int64_t dim[PARE_MAX_RANK];
    int rank = at->rank + 1, axis;
    double d;

    if (at->dtype == PARE_STR || depth->dtype == PARE_STR)
        return pare_fail(err, PARE_ESHAPE, "indices and depth must be numbers, not strings");
    if (pare_numel(depth) != 1 || pare_numel(values) != 2)
        return pare_fail(err, PARE_ESHAPE,
                         "depth must be one number and values two, found %lld "
                         "and %lld",
                         (long long)pare_numel(depth), (long long)pare_numel(values));
    if (rank > PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the result has %d dimensions, at most %d are handled",
                         rank, PARE_MAX_RANK);
    PARE_TRY(pare_axis(a->axis, rank, &axis, err));
    PARE_TRY(pare_need(n, 1, err));
    d = pare_get(depth, 0);
    if (!(d >= 0 && d < 0x1p62))
        return pare_fail(err, PARE_ESHAPE, "depth is %g, expected a size", d);
    for (int i = 0, k = 0; i < rank; i++)
        dim[i] = i == axis ? (int64_t)d : at->dim[k++];
    return pare_shape_set(&n->out[0]->t, values->dtype, rank, dim, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct one_hot *a = n->attr;
    const struct pare_tensor *at = &n->in[0]->t, *y = &n->out[0]->t;
    size_t size = pare_dtype_size(y->dtype);
    const char *off = n->in[2]->t.data, *on = off + size;
    int64_t depth, inner, count = pare_numel(at);
    int axis;

    (void)c;
    PARE_TRY(pare_axis(a->axis, y->rank, &axis, err));
    depth = y->dim[axis];
    inner = pare_span(y, axis + 1, y->rank);
    if (pare_is_empty(y))
        return 0;
    pare_fill(y->data, pare_numel(y), off, size);
    for (int64_t i = 0; i < count; i++) {
        double v = pare_get(at, i); /* wide enough: a depth beyond 2^53 does not fit in memory */
        int64_t k;

        if (!(v >= (double)-depth && v < (double)depth))
            continue;
        k = (int64_t)v;
        k = k < 0 ? k + depth : k;
        pare_copy_one((char *)y->data +
                          (size_t)((i / inner * depth + k) * inner + i % inner) * size,
                      on, size);
    }
    return 0;
}

const struct pare_op pare_op_one_hot = {
    .type = "OneHot",
    .doc = "Indices as rows with a single element on.",
    .since = 9,
    .in = "AAA",
    .min_out = 1,
    .max_out = 1,
    .attrs = one_hot_attrs,
    .attr_size = sizeof(struct one_hot),
    .infer = infer,
    .forward = forward,
    .settings = 0x4,
};
