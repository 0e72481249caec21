/* depth_to_space.c - DepthToSpace: rearrange b * b channels into blocks of b x b pixels.
 *
 * Channel (bh, bw, c) in mode DCR, (c, bh, bw) in mode CRD, becomes pixel (h b + bh, w b + bw) of
 * channel c.
 */
#include "movement.h"

struct depth_to_space {
    int64_t blocksize;
    const char *mode;
};

static const struct pare_opt depth_to_space_attrs[] = {
    { "blocksize", "pixels along each side of a block", PARE_OPT_INT,
      offsetof(struct depth_to_space, blocksize), 1, 1, 1 << 20, NULL, NULL, true, NULL },
    PARE_CHOICE("mode", offsetof(struct depth_to_space, mode), "order of channels", "DCR",
                "DCR|CRD"),
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct depth_to_space *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[4], b = a->blocksize;
    char buf[PARE_SHAPE_TEXT];

    if (x->rank != 4 || x->dim[1] % (b * b))
        return pare_fail(err, PARE_ESHAPE,
                         "an input (N, C, H, W) with C a multiple of %lld is "
                         "expected, found %s",
                         (long long)b * b, pare_shape_text(x, buf, sizeof(buf)));
    dim[0] = x->dim[0];
    dim[1] = x->dim[1] / (b * b);
    PARE_TRY(pare_mul_size(x->dim[2], b, &dim[2], err));
    PARE_TRY(pare_mul_size(x->dim[3], b, &dim[3], err));
    return pare_shape_set(&n->out[0]->t, x->dtype, 4, dim, err);
}

static int move_depth_to_space(const struct pare_node *n, const struct pare_flow *f,
                               struct pare_arena *scratch, struct pare_err *err)
{
    const struct depth_to_space *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t b = a->blocksize, C = y->dim[1], H = x->dim[2], W = x->dim[3];
    bool dcr = !strcmp(a->mode, "DCR");
    struct pare_move m = { .rank = 0 };

    (void)scratch, (void)err;
    pare_move_axis(&m, x->dim[0], C * b * b * H * W, C * b * b * H * W);
    pare_move_axis(&m, C, (dcr ? 1 : b * b) * H * W, b * b * H * W);
    pare_move_axis(&m, H, W, b * W * b);
    pare_move_axis(&m, b, (dcr ? b * C : b) * H * W, b * W);
    pare_move_axis(&m, W, 1, b);
    pare_move_axis(&m, b, (dcr ? C : 1) * H * W, 1);
    pare_flow_box(f, 0, 0, &m);
    return 0;
}

PARE_BOTH_PASSES(move_depth_to_space)

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct depth_to_space *a = n->attr;
    const struct pare_digit b = { NULL, -1, a->blocksize };
    const struct pare_digit c = { n->out[0], 1, n->out[0]->t.dim[1] };
    const struct pare_digit dcr[3] = { b, b, c }, crd[3] = { c, b, b };

    pare_tie(t, n->in[0], 0, n->out[0], 0);
    pare_tie_digits(t, n->in[0], 1, strcmp(a->mode, "DCR") ? crd : dcr, 3);
}

const struct pare_op pare_op_depth_to_space = {
    .type = "DepthToSpace",
    .doc = "Rearrange channels into blocks of pixels.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_MOVES,
    .attrs = depth_to_space_attrs,
    .attr_size = sizeof(struct depth_to_space),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .constant_channel = pare_constant_channel_same,
};
