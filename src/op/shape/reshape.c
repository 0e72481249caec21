/* reshape.c - Reshape: the same elements with another shape.
 *
 * In the shape, 0 copies the input's dimension (unless allowzero) and one -1 is inferred.
 */
#include "movement.h"

struct reshape {
    int64_t allowzero;
};

static const struct pare_opt reshape_attrs[] = {
    PARE_INT("allowzero", offsetof(struct reshape, allowzero),
             "0 in the shape means a dimension of zero", 0, 0, 1),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct reshape *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK] = { 0 }, known = 1, total = pare_numel(x);
    char buf[PARE_SHAPE_TEXT];
    int rank, free_axis = -1;

    PARE_TRY(pare_need(n, 1, err));
    PARE_TRY(pare_int_list(&n->in[1]->t, dim, PARE_MAX_RANK, &rank, err));
    for (int i = 0; i < rank; i++) {
        if (!dim[i] && !a->allowzero) {
            if (i >= x->rank)
                return pare_fail(err, PARE_ESHAPE, "the shape copies dimension %d of an input %s",
                                 i, pare_shape_text(x, buf, sizeof(buf)));
            dim[i] = x->dim[i];
        }
        if (dim[i] < -1)
            return pare_fail(err, PARE_ESHAPE, "shape has a negative dimension: %lld",
                             (long long)dim[i]);
        if (dim[i] == -1 && free_axis >= 0)
            return pare_fail(err, PARE_ESHAPE, "shape has a second unknown dimension");
        if (dim[i] == -1)
            free_axis = i;
        else if (dim[i] && known > INT64_MAX / dim[i])
            return pare_fail(err, PARE_ELIMIT, "shape has too many elements");
        else
            known *= dim[i];
    }
    if (free_axis >= 0)
        dim[free_axis] = known ? total / known : 0;
    if (free_axis >= 0 ? known && total % known : known != total)
        return pare_fail(err, PARE_ESHAPE, "an input %s does not fit the requested shape",
                         pare_shape_text(x, buf, sizeof(buf)));
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, dim, err);
}

/* Whether axis i of y is axis i of x for all sizes: all axes before it have the same sizes, so both
 * axes have the same stride. */
static bool copies_axis(const struct pare_node *n, const struct pare_shrunk *s, int i)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];

    for (int k = 0; k <= i; k++)
        if (k >= x->t.rank || x->t.dim[k] != y->t.dim[k] ||
            pare_shrunk_dim(s, x, k) != pare_shrunk_dim(s, y, k) ||
            pare_shrunk_free(s, x, k) != pare_shrunk_free(s, y, k))
            return false;
    return true;
}

/* Write the new sizes.  Of axes that follow a free dimension, those of x are 0, and one can be
 * -1. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    const struct reshape *a = n->attr;
    const struct pare_value *y = n->out[0];
    int64_t was[PARE_MAX_RANK], v[PARE_MAX_RANK] = { 0 };
    int rank, unknown = 0;
    struct pare_err err;

    if (pare_int_list(&n->in[1]->t, was, PARE_MAX_RANK, &rank, &err) || rank != y->t.rank) {
        pare_shrunk_fail(s, "its shape is unknown");
        return;
    }
    for (int i = 0; i < rank; i++) {
        bool follows = pare_shrunk_free(s, y, i), zero = !a->allowzero;
        bool copies = zero && (!was[i] || (follows && copies_axis(n, s, i)));

        v[i] = copies ? 0 : follows ? -1 : pare_shrunk_dim(s, y, i);
        unknown += v[i] == -1;
    }
    for (int i = 0; i < rank && !unknown; i++)
        if (was[i] == -1)
            v[i] = -1;
    pare_shrunk_shape(s, 1, v, rank);
}

const struct pare_op pare_op_reshape = {
    .type = "Reshape",
    .doc = "The same elements with another shape.",
    .since = 5,
    .in = "AL",
    .min_out = 1,
    .max_out = 1,
    .attrs = reshape_attrs,
    .attr_size = sizeof(struct reshape),
    .flags = PARE_OP_VIEW | PARE_OP_COPIES,
    .int8_since = 1,
    .infer = infer,
    .forward = pare_forward_copy,
    .backward = pare_backward_copy,
    .ties = pare_ties_reshape,
    .sizes = 0x2,
    .constant_channel = pare_constant_channel_same,
    .shrink = shrink,
};
