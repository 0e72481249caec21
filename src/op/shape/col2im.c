/* col2im.c - Col2Im: sum columns of blocks into an image, the inverse of im2col.
 *
 * Input (N, C * product of the block's shape, L), where L is the number of positions of the sliding
 * block; result (N, C, image shape).
 */
#include "movement.h"

struct col2im {
    struct pare_ints dilations, pads, strides;
};

static const struct pare_opt col2im_attrs[] = {
    PARE_INTS("dilations", offsetof(struct col2im, dilations),
              "distance between elements of a block (default: 1)", 1, 1e9),
    PARE_INTS("pads", offsetof(struct col2im, pads),
              "padding before each axis, then after each (default: 0)", 0, 1e9),
    PARE_INTS("strides", offsetof(struct col2im, strides), "distance between blocks (default: 1)",
              1, 1e9),
    PARE_OPT_END
};

/* Sizes per spatial axis; `places` is the number of positions of the block along it. */
struct grid {
    int rank;
    int64_t image[PARE_MAX_RANK], block[PARE_MAX_RANK], places[PARE_MAX_RANK];
    int64_t dilation[PARE_MAX_RANK], stride[PARE_MAX_RANK], before[PARE_MAX_RANK];
    int64_t blocks, all_places; /* products */
};

static int read_axis(const struct pare_node *n, struct grid *g, int i, struct pare_err *err)
{
    const struct col2im *a = n->attr;
    int64_t after = a->pads.n ? a->pads.v[i + g->rank] : 0, room;

    g->before[i] = a->pads.n ? a->pads.v[i] : 0;
    g->dilation[i] = a->dilations.n ? a->dilations.v[i] : 1;
    g->stride[i] = a->strides.n ? a->strides.v[i] : 1;
    if (g->image[i] < 1 || g->image[i] > 1 << 30 || g->block[i] < 1 || g->block[i] > 1 << 30)
        return pare_fail(err, PARE_ESHAPE, "image and block are %lld and %lld long along axis %d",
                         (long long)g->image[i], (long long)g->block[i], i);
    room = g->image[i] + g->before[i] + after - g->dilation[i] * (g->block[i] - 1) - 1;
    if (room < 0)
        return pare_fail(err, PARE_ESHAPE, "a block of %lld does not fit an image of %lld",
                         (long long)g->block[i], (long long)g->image[i]);
    g->places[i] = room / g->stride[i] + 1;
    PARE_TRY(pare_mul_size(g->blocks, g->block[i], &g->blocks, err));
    return pare_mul_size(g->all_places, g->places[i], &g->all_places, err);
}

static int read_grid(const struct pare_node *n, struct grid *g, struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct col2im *a = n->attr;
    struct pare_list image, block;

    PARE_TRY(pare_list_read(n, 1, none, &image, err));
    PARE_TRY(pare_list_read(n, 2, none, &block, err));
    g->rank = image.n;
    if (image.n < 1 || image.n > PARE_MAX_RANK - 2 || block.n != image.n ||
        (a->dilations.n && a->dilations.n != image.n) || (a->pads.n && a->pads.n != 2 * image.n) ||
        (a->strides.n && a->strides.n != image.n))
        return pare_fail(err, PARE_ESHAPE,
                         "image, block, dilations, pads and strides have %d, %d, "
                         "%d, %d and %d entries",
                         image.n, block.n, a->dilations.n, a->pads.n, a->strides.n);
    g->blocks = g->all_places = 1;
    for (int i = 0; i < g->rank; i++) {
        g->image[i] = image.v[i];
        g->block[i] = block.v[i];
        PARE_TRY(read_axis(n, g, i, err));
    }
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK];
    char buf[PARE_SHAPE_TEXT];
    struct grid g;

    PARE_TRY(read_grid(n, &g, err));
    if (x->rank != 3 || x->dim[1] % g.blocks || x->dim[2] != g.all_places)
        return pare_fail(err, PARE_ESHAPE, "an input (N, C x %lld, %lld) is expected, found %s",
                         (long long)g.blocks, (long long)g.all_places,
                         pare_shape_text(x, buf, sizeof(buf)));
    dim[0] = x->dim[0];
    dim[1] = x->dim[1] / g.blocks;
    for (int i = 0; i < g.rank; i++)
        dim[2 + i] = g.image[i];
    return pare_shape_set(&n->out[0]->t, x->dtype, 2 + g.rank, dim, err);
}

/* The offset in the image of element `in_block` of the block at `place`; -1: in the padding. */
static int64_t landing(const struct grid *g, int64_t in_block, int64_t place)
{
    int64_t at = 0, pitch = 1;

    for (int i = g->rank - 1; i >= 0; i--) {
        int64_t k = place % g->places[i] * g->stride[i] + in_block % g->block[i] * g->dilation[i] -
                    g->before[i];

        if (k < 0 || k >= g->image[i])
            return -1;
        at += k * pitch;
        pitch *= g->image[i];
        place /= g->places[i];
        in_block /= g->block[i];
    }
    return at;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t planes, pixels;
    struct grid g;

    (void)c;
    if (pare_is_empty(y))
        return 0;
    PARE_TRY(read_grid(n, &g, err));
    planes = y->dim[0] * y->dim[1];
    pixels = pare_span(y, 2, y->rank);
    memset(y->data, 0, (size_t)pare_numel(y) * pare_dtype_size(y->dtype));
    for (int64_t b = 0; b < g.blocks; b++)
        for (int64_t l = 0; l < g.all_places; l++) {
            int64_t at = landing(&g, b, l);

            for (int64_t p = 0; at >= 0 && p < planes; p++) {
                int64_t to = p * pixels + at, from = (p * g.blocks + b) * g.all_places + l;

                if (y->dtype == PARE_F32)
                    pare_f32_mut(y)[to] += pare_f32(x)[from];
                else
                    ((double *)y->data)[to] += ((const double *)x->data)[from];
            }
        }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t planes = y->dim[0] * y->dim[1], pixels = pare_span(y, 2, y->rank);
    struct grid g;

    (void)c;
    if (pare_is_empty(y) || !gx || !gy)
        return 0;
    PARE_TRY(read_grid(n, &g, err));
    for (int64_t b = 0; b < g.blocks; b++)
        for (int64_t l = 0; l < g.all_places; l++) {
            int64_t at = landing(&g, b, l);

            for (int64_t p = 0; at >= 0 && p < planes; p++)
                gx[(p * g.blocks + b) * g.all_places + l] += gy[p * pixels + at];
        }
    return 0;
}

const struct pare_op pare_op_col2im = {
    .type = "Col2Im",
    .doc = "Sum columns of blocks into an image.",
    .since = 18,
    .in = "TLL",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .attrs = col2im_attrs,
    .attr_size = sizeof(struct col2im),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
