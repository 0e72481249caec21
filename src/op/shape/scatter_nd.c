/* scatter_nd.c - ScatterND: replace slices, or combine them with updates, by tuples of indices.
 *
 * Data (d1..., r...), indices (i..., k), updates (i..., r...); other elements are copied.
 */
#include "scatter_family.h"

struct scatter_nd {
    const char *reduction;
};

static const struct pare_opt scatter_nd_attrs[] = {
    PARE_CHOICE("reduction", offsetof(struct scatter_nd, reduction),
                "how to combine an update with the old element", "none", PARE_REDUCTIONS),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct scatter_nd *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *at = &n->in[1]->t, *fresh = &n->in[2]->t;
    char bx[PARE_SHAPE_TEXT], bi[PARE_SHAPE_TEXT], bn[PARE_SHAPE_TEXT];
    int64_t k = at->rank ? at->dim[at->rank - 1] : 0;
    bool fits = k >= 1 && k <= x->rank && fresh->rank == at->rank - 1 + x->rank - (int)k;

    for (int i = 0; fits && i < fresh->rank; i++)
        fits = fresh->dim[i] == (i < at->rank - 1 ? at->dim[i] : x->dim[i - (at->rank - 1) + k]);
    if (!fits)
        return pare_fail(err, PARE_ESHAPE, "indices %s and updates %s do not fit data %s",
                         pare_shape_text(at, bi, sizeof(bi)),
                         pare_shape_text(fresh, bn, sizeof(bn)),
                         pare_shape_text(x, bx, sizeof(bx)));
    PARE_TRY(pare_check_reduction(x->dtype, a->reduction, err));
    pare_like(&n->out[0]->t, x);
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct scatter_nd *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t, *at = &n->in[1]->t, *fresh = &n->in[2]->t;
    int k = (int)at->dim[at->rank - 1];
    int64_t rows = pare_span(at, 0, at->rank - 1), run = pare_span(y, k, y->rank);
    size_t size = pare_dtype_size(y->dtype);

    PARE_TRY(pare_forward_copy(n, c, err));
    if (pare_is_empty(fresh))
        return 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t to;

        PARE_TRY(pare_index_row(at, r, y, 0, &to, err));
        pare_combine(y->dtype, a->reduction, (char *)y->data + (size_t)to * size,
                     (const char *)fresh->data + (size_t)(r * run) * size, run);
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct scatter_nd *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t, *at = &n->in[1]->t;
    int k = (int)at->dim[at->rank - 1];
    struct pare_scattered s = { a->reduction, NULL, pare_span(at, 0, at->rank - 1),
                                pare_span(y, k, y->rank) };
    int64_t *to;

    if (!n->out[0]->grad.data || pare_is_empty(y))
        return 0;
    to = pare_alloc_raw(c->scratch, (size_t)s.rows, sizeof(*to));
    if (!to)
        return pare_no_memory(err, "for %lld positions", (long long)s.rows);
    for (int64_t r = 0; r < s.rows; r++)
        PARE_TRY(pare_index_row(at, r, y, 0, &to[r], err));
    s.to = to;
    return pare_scatter_back(n, &s, c->scratch, err);
}

const struct pare_op pare_op_scatter_nd = {
    .type = "ScatterND",
    .doc = "Replace or combine slices by tuples of indices.",
    .since = 11,
    .in = "TIT",
    .min_out = 1,
    .max_out = 1,
    .attrs = scatter_nd_attrs,
    .attr_size = sizeof(struct scatter_nd),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
