/* center_crop_pad.c - CenterCropPad: crop axes or pad them with zeros at both ends, to a size.
 *
 * If the difference is odd, the end gets (or loses) one element more.
 */
#include "movement.h"

struct center_crop_pad {
    struct pare_ints axes;
};

static const struct pare_opt center_crop_pad_attrs[] = {
    PARE_INTS("axes", offsetof(struct center_crop_pad, axes), "axes of the shape (default: all)",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct center_crop_pad *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK];
    struct pare_list shape, axes;

    PARE_TRY(pare_list_read(n, 1, none, &shape, err));
    PARE_TRY(pare_axes_read(n, n->n_in, a->axes, x->rank, &axes, err));
    if (shape.n != (axes.n < 0 ? x->rank : axes.n))
        return pare_fail(err, PARE_ESHAPE, "%d sizes are given for %d axes", shape.n,
                         axes.n < 0 ? x->rank : axes.n);
    for (int i = 0; i < x->rank; i++)
        dim[i] = x->dim[i];
    for (int k = 0; k < shape.n; k++) {
        if (shape.v[k] < 0)
            return pare_fail(err, PARE_ESHAPE, "a size is negative: %lld", (long long)shape.v[k]);
        dim[axes.n < 0 ? k : axes.v[k]] = shape.v[k];
    }
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank, dim, err);
}

static int move_center_crop_pad(const struct pare_node *n, const struct pare_flow *f,
                                struct pare_arena *scratch, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t from[PARE_MAX_RANK], to[PARE_MAX_RANK], src = 0, dst = 0;
    struct pare_move m = { .rank = 0 };

    (void)scratch, (void)err;
    if (!f->gx)
        memset(f->y, 0, (size_t)pare_numel(y) * f->size);
    pare_strides(x, from);
    pare_strides(y, to);
    for (int i = 0; i < x->rank; i++) {
        int64_t more = y->dim[i] - x->dim[i];

        src += (more < 0 ? -more / 2 : 0) * from[i];
        dst += (more > 0 ? more / 2 : 0) * to[i];
        pare_move_axis(&m, more < 0 ? y->dim[i] : x->dim[i], from[i], to[i]);
    }
    pare_flow_box(f, src, dst, &m);
    return 0;
}

PARE_BOTH_PASSES(move_center_crop_pad)

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_ties_kept(n, t, NULL);
}

const struct pare_op pare_op_center_crop_pad = {
    .type = "CenterCropPad",
    .doc = "Crop or pad axes around their center.",
    .since = 18,
    .in = "AI",
    .min_out = 1,
    .max_out = 1,
    .attrs = center_crop_pad_attrs,
    .attr_size = sizeof(struct center_crop_pad),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};
