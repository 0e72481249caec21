/* space_to_depth.c - SpaceToDepth: rearrange blocks of b x b pixels into channels (bh, bw, c). */
#include "movement.h"

struct space_to_depth {
    int64_t blocksize;
};

static const struct pare_opt space_to_depth_attrs[] = {
    { "blocksize", "pixels along each side of a block", PARE_OPT_INT,
      offsetof(struct space_to_depth, blocksize), 1, 1, 1 << 20, NULL, NULL, true, NULL },
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct space_to_depth *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[4], b = a->blocksize;
    char buf[PARE_SHAPE_TEXT];

    if (x->rank != 4 || x->dim[2] % b || x->dim[3] % b)
        return pare_fail(err, PARE_ESHAPE,
                         "an input (N, C, H, W) with H and W multiples of %lld "
                         "is expected, found %s",
                         (long long)b, pare_shape_text(x, buf, sizeof(buf)));
    dim[0] = x->dim[0];
    PARE_TRY(pare_mul_size(x->dim[1], b * b, &dim[1], err));
    dim[2] = x->dim[2] / b;
    dim[3] = x->dim[3] / b;
    return pare_shape_set(&n->out[0]->t, x->dtype, 4, dim, err);
}

static int move_space_to_depth(const struct pare_node *n, const struct pare_flow *f,
                               struct pare_arena *scratch, struct pare_err *err)
{
    const struct space_to_depth *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t b = a->blocksize, C = x->dim[1], H = y->dim[2], W = y->dim[3];
    struct pare_move m = { .rank = 0 };

    (void)scratch, (void)err;
    pare_move_axis(&m, x->dim[0], C * b * b * H * W, C * b * b * H * W);
    pare_move_axis(&m, b, W * b, b * C * H * W);
    pare_move_axis(&m, b, 1, C * H * W);
    pare_move_axis(&m, C, b * b * H * W, H * W);
    pare_move_axis(&m, H, b * W * b, W);
    pare_move_axis(&m, W, b, 1);
    pare_flow_box(f, 0, 0, &m);
    return 0;
}

PARE_BOTH_PASSES(move_space_to_depth)

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct space_to_depth *a = n->attr;
    const struct pare_digit b = { NULL, -1, a->blocksize };
    const struct pare_digit digit[3] = { b, b, { n->in[0], 1, n->in[0]->t.dim[1] } };

    pare_tie(t, n->in[0], 0, n->out[0], 0);
    pare_tie_digits(t, n->out[0], 1, digit, 3);
}

const struct pare_op pare_op_space_to_depth = {
    .type = "SpaceToDepth",
    .doc = "Rearrange blocks of pixels into channels.",
    .since = 1,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_MOVES,
    .attrs = space_to_depth_attrs,
    .attr_size = sizeof(struct space_to_depth),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .constant_channel = pare_constant_channel_same,
};
