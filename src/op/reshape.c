/* reshape.c - Reshape: the same elements under another shape.
 *
 * In the shape, 0 copies the input's dimension (unless allowzero) and one -1 takes what is left.
 */
#include "movement.h"

struct reshape {
    int64_t allowzero;
};

static const struct pare_opt reshape_attrs[] = {
    { "allowzero", "0 in the shape means a dimension of zero", PARE_OPT_INT,
      offsetof(struct reshape, allowzero), 0, 0, 1, NULL, NULL, false },
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
                return pare_fail(err, PARE_ESHAPE, "shape copies dimension %d of an input %s", i,
                                 pare_shape_text(x, buf, sizeof(buf)));
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
        return pare_fail(err, PARE_ESHAPE, "an input %s does not fit the shape asked for",
                         pare_shape_text(x, buf, sizeof(buf)));
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, dim, err);
}

const struct pare_op pare_op_reshape = {
    .abi = PARE_ABI,
    .type = "Reshape",
    .doc = "The same elements under another shape.",
    .since = 5,
    .in = "AL",
    .min_out = 1,
    .max_out = 1,
    .attrs = reshape_attrs,
    .attr_size = sizeof(struct reshape),
    .flags = PARE_OP_VIEW,
    .infer = infer,
    .forward = pare_forward_copy,
    .backward = pare_backward_copy,
    .ties = pare_ties_reshape,
    .sizes = 0x2,
};
