/* test_blocked_kernels.c - fast kernels after a convolution, in its blocked layout, against
 * reference kernels. */
#include <math.h>

#include "make_model.h"

#include "backend/backend.h"
#include "base/rng.h"
#include "plan/plan.h"

static struct pare_rng rng;

static int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)pare_rng_below(&rng, (uint64_t)(high - low + 1));
}

static const char *random_floats(struct build *b, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = 0.2f * (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* A network whose input goes through a pointwise convolution, whose result is blocked. */
struct net {
    struct build b;
    struct pare_tensor in;
    const char *input, *x;   /* its input; the blocked value */
    const char *const *skip; /* kernels not to use */
    bool any_layout;         /* the kernel may also run row-major */
};

static struct net start_net(int rank, const int64_t *dim)
{
    struct net n = { .b = { .opset = 18 }, .in = build_tensor(PARE_F32, rank, dim) };
    int64_t w[5] = { dim[1], dim[1], 1, 1, 1 };

    for (int64_t i = 0; i < pare_numel(&n.in); i++)
        pare_f32_mut(&n.in)[i] = (float)pare_rng_normal(&rng);
    n.input = build_input(&n.b, PARE_F32, rank, dim);
    n.x = build_node(&n.b, "Conv", NAMES(n.input, random_floats(&n.b, rank, w)), NOTHING);
    return n;
}

static struct pare_tensor run_net(const struct net *n, const struct pare_model *m,
                                  const struct pare_plan_opts *o, const char *type,
                                  const char *kernel)
{
    struct pare_plan_build with = { .opts = o, .without = n->skip };
    struct pare_plan *p;
    struct pare_tensor y;
    struct pare_err err;
    bool seen = !kernel;

    if (pare_plan_build(m, &with, &p, &err) || pare_plan_execute(p, &n->in, &y, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < p->n_steps && kernel; i++) {
        const struct pare_step *s = p->step[i];

        if (!s->node || strcmp(s->node->type, type) || strcmp(s->kernel->name, kernel))
            continue;
        seen = true;
        if (s->in_block[0] < 8 && p->backend.block >= 8 && !n->any_layout)
            fail_msg("%s reads layout %d", kernel, s->in_block[0]);
    }
    if (!seen)
        fail_msg("no %s is run by %s", type, kernel);
    y = build_copy(&y);
    pare_plan_free(p);
    return y;
}

/* With one thread and several, the result is that of the reference kernels, and nodes of this type
 * are run by this kernel in the blocked layout. */
static void check_net(struct net *n, const char *y, const char *type, const char *kernel)
{
    struct pare_model *m;
    struct pare_tensor want;
    double largest = 1;

    build_output(&n->b, y);
    m = build_model(&n->b);
    want = run_net(n, m, &(struct pare_plan_opts){ .reference = true }, NULL, NULL);
    for (int64_t i = 0; i < pare_numel(&want); i++)
        largest = fmax(largest, fabs((double)pare_f32(&want)[i]));
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pare_tensor got = run_net(n, m, &(struct pare_plan_opts){ .threads = threads }, type,
                                         kernel);

        assert_true(pare_same_shape(&got, &want));
        for (int64_t i = 0; i < pare_numel(&want); i++) {
            double a = (double)pare_f32(&got)[i], b = (double)pare_f32(&want)[i];

            if (!(fabs(a - b) <= 3e-5 * largest))
                fail_msg("%s, element %d: %g, expected %g", kernel, (int)i, a, b);
        }
    }
    pare_model_free(m);
}

/* ---- convolutions by Winograd's algorithm ------------------------------------------ */

static const char *apply_activation(struct build *b, const char *x, int kind)
{
    static const char *const types[] = { "Sigmoid", "HardSwish", "Relu" };

    if (kind < 3)
        return build_node(b, types[kind], NAMES(x), NOTHING);
    return build_node(b, "Mul", NAMES(x, build_node(b, "Sigmoid", NAMES(x), NOTHING)), NOTHING);
}

/* Activations before and after a residual Add; lanes beyond the channels stay zero. */
static void test_winograd_post_ops(void **state)
{
    static const char *const others[] = { "conv_onednn", "conv_taps", "conv_gemm", NULL };

    (void)state;
    pare_rng_init(&rng, 3);
    for (int kind = 0; kind < 16; kind++) {
        int64_t c = kind & 4 ? 32 : 19, h = random_between(5, 17), w = random_between(5, 17);
        struct net n = start_net(INTS(2, c, h, w));
        const char *y = build_node(&n.b, "Conv", NAMES(n.x, random_floats(&n.b, INTS(c, c, 3, 3))),
                                   at_ints("pads", INTS(1, 1, 1, 1)));

        n.skip = others;
        if (c % 16 && kind % 4 == 0)
            continue; /* the sigmoid of a lane beyond the channels is not zero */
        y = apply_activation(&n.b, y, kind % 4);
        if (kind & 8)
            y = apply_activation(&n.b, build_node(&n.b, "Add", NAMES(y, n.x), NOTHING), 3);
        y = build_node(&n.b, "Conv", NAMES(y, random_floats(&n.b, INTS(c, c, 1, 1))), NOTHING);
        check_net(&n, y, "Conv", "conv_winograd");
    }
}

/* Few output channels, in rows of pixels that fill vectors or overlap: filters of any size and
 * dilation, uneven paddings or none, residuals, activations. */
static void test_conv_planes(void **state)
{
    static const char *const others[] = { "conv_winograd",
                                          "conv_winograd_line",
                                          "conv_1x1_packed",
                                          "conv_taps",
                                          "conv_onednn",
                                          "conv_gemm",
                                          NULL };

    (void)state;
    pare_rng_init(&rng, 11);
    for (int i = 0; i < 40; i++) {
        int64_t c = random_between(1, 20), o = random_between(1, 20), pad[4] = { 0 };
        int64_t kernel[2] = { random_between(1, 4), random_between(1, 5) };
        int64_t dilation[2] = { random_between(1, 2), random_between(1, 3) };
        int64_t h = random_between(1, 20), w = 8 * random_between(2, 8), in[2] = { h, w };
        struct net n;
        const char *y, *x;

        for (int k = 0; k < 2; k++) {
            int64_t reach = (kernel[k] - 1) * dilation[k];

            pad[k] = i % 4 ? random_between(0, reach) : 0;
            pad[k + 2] = i % 4 ? reach - pad[k] : 0;
            in[k] += reach - pad[k] - pad[k + 2];
        }
        n = start_net(INTS(random_between(1, 3), c, in[0], in[1]));
        n.skip = others;
        n.any_layout = true;
        x = build_node(&n.b, "Conv",
                       NAMES(n.x, random_floats(&n.b, INTS(o, c, kernel[0], kernel[1])),
                             random_floats(&n.b, INTS(o))),
                       CAT(at_ints("pads", 4, pad), at_ints("dilations", 2, dilation)));
        y = apply_activation(&n.b, x, i % 5);
        if (i & 1) { /* its operand is computed first */
            y = build_node(&n.b, "Conv", NAMES(y, random_floats(&n.b, INTS(o, o, 3, 3))),
                           at_ints("pads", INTS(1, 1, 1, 1)));
            y = build_node(&n.b, "Add", NAMES(y, x), NOTHING);
            y = apply_activation(&n.b, y, i % 4);
        }
        check_net(&n, y, "Conv", "conv_planes");
    }
}

/* Filters of 1 x k and k x 1: paddings of any size, residuals, channels that do not fill blocks. */
static void test_winograd_lines(void **state)
{
    static const char *const others[] = { "conv_onednn", "conv_taps", "conv_gemm", NULL };

    (void)state;
    pare_rng_init(&rng, 7);
    for (int i = 0; i < 24; i++) {
        static const int64_t lengths[] = { 3, 4, 7, 8, 11, 12 };
        int64_t taps = lengths[i % 6], c = random_between(33, 64), side = random_between(0, 2);
        int64_t at = i / 6 % 2, pad[4] = { 0 }, w[4] = { c, c, 1, 1 };
        int64_t h = random_between(12, 20), v = random_between(12, 20);
        struct net n = start_net(INTS(2, c, h, v));
        const char *y;

        w[2 + at] = taps;
        pad[at] = (taps - 1) / 2 + side;
        pad[2 + at] = taps / 2 - side > 0 ? taps / 2 - side : 0;
        n.skip = others;
        y = build_node(&n.b, "Conv",
                       NAMES(n.x, random_floats(&n.b, 4, w),
                             build_floats(&n.b, INTS(c), pare_f32(&n.in))),
                       at_ints("pads", 4, pad));
        if (i % 3 == 0 && taps > 4 && side <= taps / 2)
            y = build_node(&n.b, "Add", NAMES(y, n.x), NOTHING);
        y = build_node(&n.b, "Relu", NAMES(y), NOTHING);
        check_net(&n, y, "Conv", "conv_winograd_line");
    }
}

/* oneDNN adds residuals before activations only; the Add after an activation is a step of its
 * own. */
static void test_sum_after_activation(void **state)
{
    static const char *const others[] = { "conv_winograd", "conv_taps", "conv_1x1_packed",
                                          "conv_gemm", NULL };
    struct net n;
    const char *y;

    (void)state;
    if (!pare_has_onednn)
        skip();
    pare_rng_init(&rng, 4);
    n = start_net(INTS(1, 32, 9, 9));
    n.skip = others;
    y = build_node(&n.b, "Conv", NAMES(n.x, random_floats(&n.b, INTS(32, 32, 3, 3))),
                   at_ints("pads", INTS(1, 1, 1, 1)));
    y = build_node(&n.b, "Add", NAMES(apply_activation(&n.b, y, 3), n.x), NOTHING);
    check_net(&n, y, "Conv", "conv_onednn");
}

/* ---- elements chosen along each axis -------------------------------------------------- */

static const char *random_slice(struct net *n, const int64_t *dim, int rank)
{
    int64_t start[5], end[5], axes[5], step[5];

    for (int i = 0; i < rank; i++) {
        axes[i] = i;
        start[i] = random_between(0, dim[i] - 1);
        end[i] = random_between(start[i] + 1, dim[i]);
        step[i] = random_between(1, 2);
        if (i == 1 && random_between(0, 3)) { /* whole blocks, perhaps all channels */
            start[i] = random_between(0, 1) * 16 * (dim[1] > 16);
            end[i] = random_between(0, 1) ? dim[i] : start[i] + 16;
            step[i] = 1;
        } else if (random_between(0, 3) == 0) { /* from the end to the start */
            int64_t last = end[i] - 1;

            end[i] = start[i] ? start[i] - 1 : -dim[i] - 1;
            start[i] = last;
            step[i] = -1;
        }
    }
    return build_node(&n->b, "Slice",
                      NAMES(n->x, build_ints(&n->b, rank, start), build_ints(&n->b, rank, end),
                            build_ints(&n->b, rank, axes), build_ints(&n->b, rank, step)),
                      NOTHING);
}

static const char *random_pad(struct net *n, const int64_t *dim, int rank)
{
    static const char *const modes[] = { "constant", "constant", "reflect", "edge", "wrap" };
    const char *mode = modes[random_between(0, 4)];
    int64_t amount[10] = { 0 };
    float value = random_between(0, 1) ? 0.0f : 1.5f;

    n->b.opset = 19; /* has wrap */
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < 2 && (i > 1 || random_between(0, 7) == 0); k++)
            amount[i + k * rank] = random_between(dim[i] > 4 ? -1 : 0, 3);
    return build_node(&n->b, "Pad",
                      NAMES(n->x, build_ints(&n->b, 2 * rank, amount), build_scalar(&n->b, value)),
                      at_text("mode", mode));
}

static const char *random_nearest(struct net *n, int rank)
{
    static const char *const coords[] = { "half_pixel", "asymmetric", "align_corners",
                                          "pytorch_half_pixel" };
    static const char *const rounding[] = { "floor", "ceil", "round_prefer_floor",
                                            "round_prefer_ceil" };
    float scale[5] = { 1, 1, 1, 1, 1 };

    for (int i = 2; i < rank; i++)
        scale[i] = random_between(0, 1) ? 2 : (float)random_between(3, 15) / 5;
    return build_node(&n->b, "Resize",
                      NAMES(n->x, "", build_const(&n->b, PARE_F32, INTS(rank), scale)),
                      CAT(at_text("coordinate_transformation_mode", coords[random_between(0, 3)]),
                          at_text("nearest_mode", rounding[random_between(0, 3)])));
}

static const char *random_tile(struct net *n, int rank)
{
    int64_t times[5] = { 1, 1, 1, 1, 1 };

    for (int i = 0; i < rank; i++)
        times[i] = random_between(1, i == 1 ? 1 : 3);
    return build_node(&n->b, "Tile", NAMES(n->x, build_ints(&n->b, rank, times)), NOTHING);
}

/* Parts of the channels in another order, as shuffles have them. */
static const char *random_split(struct net *n, const int64_t *dim)
{
    const char *part[3], *sizes;
    int64_t first = random_between(0, 1) ? 16 : random_between(1, dim[1] - 2);
    int64_t second = dim[1] > 32 && random_between(0, 1) ? 16 : 1;

    if (first + second >= dim[1])
        first = 1;
    sizes = build_ints(&n->b, INTS(first, second, dim[1] - first - second));
    build_node_outs(&n->b, "Split", NAMES(n->x, sizes), at_int("axis", 1), 3, part);
    return build_node(&n->b, "Concat", NAMES(part[2], part[0], part[1]), at_int("axis", 1));
}

static void check_picks(int kind, int times)
{
    static const char *const type[] = { "Slice", "Pad", "Resize", "Tile", "Split" };

    pare_rng_init(&rng, (uint64_t)kind + 1);
    for (int i = 0; i < times; i++) {
        static const int64_t channels[] = { 16, 19, 32, 48, 37 };
        int rank = (int)random_between(3, 5);
        int64_t dim[5] = { random_between(1, 2), channels[random_between(0, 4)],
                           random_between(2, 9), random_between(2, 12), random_between(2, 5) };
        struct net n = start_net(rank, dim);
        const char *y = kind == 0   ? random_slice(&n, dim, rank)
                        : kind == 1 ? random_pad(&n, dim, rank)
                        : kind == 2 ? random_nearest(&n, rank)
                        : kind == 3 ? random_tile(&n, rank)
                                    : random_split(&n, dim);

        n.any_layout = true;
        check_net(&n, y, type[kind], "pick_axes");
    }
}

static void test_random_slices(void **state)
{
    (void)state;
    check_picks(0, 60);
}

static void test_random_pads(void **state)
{
    (void)state;
    check_picks(1, 60);
}

static void test_random_nearest(void **state)
{
    (void)state;
    check_picks(2, 60);
}

static void test_random_tiles(void **state)
{
    (void)state;
    check_picks(3, 30);
}

static void test_random_splits(void **state)
{
    (void)state;
    check_picks(4, 30);
}

/* Spatial axes and whole blocks of channels are picked in the blocked layout. */
static void test_picks_stay_blocked(void **state)
{
    struct net n;
    const char *part[2], *y;

    (void)state;
    pare_rng_init(&rng, 9);
    n = start_net(INTS(1, 32, 6, 5));
    build_node_outs(&n.b, "Split", NAMES(n.x), CAT(at_int("axis", 1), at_int("num_outputs", 2)), 2,
                    part);
    y = build_node(&n.b, "Pad", NAMES(part[1], build_ints(&n.b, INTS(0, 0, 1, 2, 0, 0, 0, 1))),
                   NOTHING);
    check_net(&n, y, "Split", "pick_axes");
    n = start_net(INTS(2, 19, 6, 5));
    check_net(&n, random_nearest(&n, 4), "Resize", "pick_axes");
    n = start_net(INTS(2, 19, 6, 5));
    y = build_node(&n.b, "Pad", NAMES(n.x, build_ints(&n.b, INTS(0, 0, 1, 2, 0, 0, 0, 1))),
                   NOTHING);
    check_net(&n, y, "Pad", "pick_axes");
}

/* ---- transposed convolutions ----------------------------------------------------------- */

/* Random geometry along an axis; the result has at least one element. */
static int64_t random_transpose_axis(int64_t in, int64_t g[6])
{
    int64_t out;

    do {
        g[0] = random_between(1, 5);                               /* kernel */
        g[1] = random_between(1, 4);                               /* stride */
        g[2] = random_between(0, 3) ? 1 : random_between(2, 3);    /* dilation */
        g[3] = random_between(0, 3), g[4] = random_between(0, 3);  /* pads */
        g[5] = random_between(0, (g[1] > g[2] ? g[1] : g[2]) - 1); /* output_padding */
        out = (in - 1) * g[1] + (g[0] - 1) * g[2] + 1 + g[5] - g[3] - g[4];
    } while (out < 1);
    return out;
}

static const char *random_transpose(struct net *n, int nd, const int64_t *dim, int64_t group,
                                    int64_t each)
{
    int64_t g[2][6], list[5][4], w[4] = { dim[1], each }, y[4] = { dim[0], group * each };
    const char *out, *residual = NULL, *bn[4];
    struct bin attrs;

    for (int i = 0; i < nd; i++) {
        y[2 + i] = random_transpose_axis(dim[2 + i], g[i]);
        w[2 + i] = g[i][0];
        list[0][i] = g[i][1], list[1][i] = g[i][2], list[2][i] = g[i][3];
        list[2][nd + i] = g[i][4], list[3][i] = g[i][5];
    }
    attrs = CAT(at_ints("strides", nd, list[0]), at_ints("dilations", nd, list[1]),
                at_ints("pads", 2 * nd, list[2]), at_ints("output_padding", nd, list[3]),
                at_int("group", group));
    if (random_between(0, 1))
        residual = build_node(&n->b, "ConvTranspose", NAMES(n->x, random_floats(&n->b, 2 + nd, w)),
                              attrs);
    out = build_node(&n->b, "ConvTranspose",
                     NAMES(n->x, random_floats(&n->b, 2 + nd, w), random_floats(&n->b, 1, &y[1])),
                     attrs);
    if (random_between(0, 2) == 0) {
        struct pare_tensor one = build_tensor(PARE_F32, 1, &y[1]);

        for (int64_t i = 0; i < y[1]; i++)
            pare_f32_mut(&one)[i] = 1 + (float)pare_rng_uniform(&rng);
        for (int i = 0; i < 4; i++)
            bn[i] = i < 3 ? random_floats(&n->b, 1, &y[1])
                          : build_floats(&n->b, 1, &y[1], one.data);
        out = build_node(&n->b, "BatchNormalization", NAMES(out, bn[0], bn[1], bn[2], bn[3]),
                         NOTHING);
    }
    out = apply_activation(&n->b, out, (int)random_between(0, 3));
    if (residual)
        out = build_node(&n->b, "Add", NAMES(out, residual), NOTHING);
    return build_node(&n->b, random_between(0, 1) ? "Tanh" : "Relu", NAMES(out), NOTHING);
}

static void test_random_transposed(void **state)
{
    static const int64_t widths[] = { 1, 3, 4, 8, 16, 19, 32 };

    (void)state;
    pare_rng_init(&rng, 11);
    for (int i = 0; i < 150; i++) {
        int64_t group = random_between(0, 2) ? 1 : random_between(2, 6);
        int64_t in = widths[random_between(0, 6)], out = widths[random_between(0, 6)];
        int64_t dim[4] = { random_between(1, 2), group * in, random_between(1, 7),
                           random_between(1, 9) };
        int nd = (int)random_between(1, 2);
        struct net n = start_net(2 + nd, dim);

        check_net(&n, random_transpose(&n, nd, dim, group, out), "ConvTranspose",
                  "conv_transpose_lines");
    }
}

/* Longer than a piece, as in vocoders; threads share the pieces. */
static void test_long_transposed(void **state)
{
    struct net n;
    const char *y;

    (void)state;
    pare_rng_init(&rng, 12);
    n = start_net(INTS(1, 24, 500));
    y = build_node(&n.b, "ConvTranspose", NAMES(n.x, random_floats(&n.b, INTS(24, 20, 8))),
                   CAT(at_ints("strides", INTS(4)), at_ints("pads", INTS(2, 2))));
    check_net(&n, y, "ConvTranspose", "conv_transpose_lines");
}

/* ---- linear and cubic Resize -------------------------------------------------------------- */

static void test_random_resampling(void **state)
{
    static const char *const coords[] = { "half_pixel", "asymmetric", "align_corners",
                                          "pytorch_half_pixel", "half_pixel_symmetric" };

    (void)state;
    pare_rng_init(&rng, 13);
    for (int i = 0; i < 120; i++) {
        int rank = (int)random_between(3, 5);
        bool blocked = random_between(0, 3) > 0, shrink = random_between(0, 1);
        int64_t dim[5] = { random_between(1, 2), random_between(1, 40), random_between(1, 9),
                           random_between(1, 12), random_between(1, 9) };
        struct net n = start_net(rank, dim);
        float scale[5] = { 1, 1, 1, 1, 1 };
        const char *y;

        for (int k = rank == 5 ? 3 : 2; k < rank; k++)
            if (random_between(0, 4))
                scale[k] = shrink ? (float)random_between(1, 9) / 5
                                  : (float)random_between(5, 20) / 5;
        for (int k = 2; k < rank; k++) /* no empty results */
            scale[k] = scale[k] * (float)dim[k] < 1 ? 1 : scale[k];
        if (!blocked)
            n.x = build_node(&n.b, "Transpose", NAMES(n.x), NOTHING);
        if (!blocked)
            n.x = build_node(&n.b, "Transpose", NAMES(build_node(&n.b, "Abs", NAMES(n.x), NOTHING)),
                             NOTHING);
        y = build_node(&n.b, "Resize",
                       NAMES(n.x, "", build_const(&n.b, PARE_F32, INTS(rank), scale)),
                       CAT(at_text("coordinate_transformation_mode", coords[random_between(0, 4)]),
                           at_text("mode", random_between(0, 2) ? "linear" : "cubic"),
                           at_int("antialias", random_between(0, 1)),
                           at_int("exclude_outside", random_between(0, 1))));
        y = build_node(&n.b, "Neg", NAMES(y), NOTHING);
        n.any_layout = !blocked;
        check_net(&n, y, "Resize", "resample_rows");
    }
}

/* ---- along an axis ------------------------------------------------------------------------- */

/* Softmax, ArgMax and ArgMin along any axis; many values are equal. */
static void test_random_axes(void **state)
{
    static const char *const type[] = { "Softmax", "ArgMax", "ArgMin" };

    (void)state;
    pare_rng_init(&rng, 14);
    for (int i = 0; i < 120; i++) {
        int rank = (int)random_between(3, 4), kind = (int)random_between(0, 2);
        int64_t dim[4] = { random_between(1, 2), random_between(1, 20), random_between(1, 90),
                           random_between(1, 30) };
        struct net n = start_net(rank, dim);
        struct bin attrs = at_int("axis", random_between(-rank, rank - 1));
        const char *y = build_node(&n.b, "Round", NAMES(n.input), NOTHING);

        if (kind)
            attrs = CAT(attrs, at_int("select_last_index", random_between(0, 1)),
                        at_int("keepdims", random_between(0, 1)));
        y = build_node(&n.b, type[kind], NAMES(y), attrs);
        if (kind)
            y = build_node(&n.b, "Cast", NAMES(y), at_int("to", PARE_F32));
        n.any_layout = true;
        check_net(&n, y, type[kind], kind ? "arg_columns" : "softmax_rows");
    }
}

/* All bytes, scale and zero point, of a short tensor and of one that threads share. */
static void test_dynamic_quantization(void **state)
{
    static const int64_t sizes[] = { 1, 7, 33, 100, 4000 };

    (void)state;
    pare_rng_init(&rng, 15);
    for (int i = 0; i < 20; i++) {
        struct net n = start_net(INTS(1, 16, sizes[i % 5]));
        const char *out[3], *y;

        n.x = n.input; /* the convolution is rounded differently by its kernels */
        if (i % 3 == 1)
            n.x = build_node(&n.b, "Relu", NAMES(n.x), NOTHING);
        if (i % 3 == 2)
            n.x = build_node(&n.b, "Neg", NAMES(build_node(&n.b, "Relu", NAMES(n.x), NOTHING)),
                             NOTHING);
        build_node_outs(&n.b, "DynamicQuantizeLinear", NAMES(n.x), NOTHING, 3, out);
        y = build_node(&n.b, "Cast", NAMES(out[0]), at_int("to", PARE_F32));
        y = build_node(&n.b, "Add", NAMES(y, out[1]), NOTHING);
        y = build_node(&n.b, "Add",
                       NAMES(y, build_node(&n.b, "Cast", NAMES(out[2]), at_int("to", PARE_F32))),
                       NOTHING);
        n.any_layout = true;
        check_net(&n, y, "DynamicQuantizeLinear", "dynamic_quantize_int8");
    }
}

static const char *random_bytes(struct build *b, int rank, const int64_t *dim, int dtype)
{
    struct pare_tensor t = build_tensor(dtype, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        ((uint8_t *)t.data)[i] = (uint8_t)random_between(0, 255);
    return build_const(b, dtype, rank, dim, t.data);
}

/* Convolutions of dynamically quantized values, by weights that may need nine bits. */
static void test_random_dynamic_convolutions(void **state)
{
    static const char *const others[] = { "conv_dynamic_int8", NULL };

    (void)state;
    pare_rng_init(&rng, 16);
    for (int i = 0; i < 60; i++) {
        int rank = (int)random_between(3, 4), type = random_between(0, 1) ? PARE_U8 : PARE_I8;
        int64_t group = random_between(0, 1) ? 1 : random_between(2, 4);
        int64_t each = random_between(1, 20), out = random_between(0, 2) ? random_between(1, 9) : 1;
        int64_t dim[4] = { random_between(1, 2), group * each, random_between(3, 12),
                           random_between(3, 12) };
        int64_t w[4] = { group * out, each, random_between(1, 3), random_between(1, 3) };
        int64_t pads[4] = { 1, 0, 1, 1 }, strides[2] = { random_between(1, 2), 1 };
        struct net n = start_net(rank, dim);
        const char *q[3], *zero, *y;

        build_node_outs(&n.b, "DynamicQuantizeLinear", NAMES(n.input), NOTHING, 3, q);
        zero = random_between(0, 1) ? random_bytes(&n.b, 0, NULL, type)
                                    : random_bytes(&n.b, 1, &w[0], type);
        y = build_node(&n.b, "ConvInteger",
                       NAMES(q[0], random_bytes(&n.b, rank, w, type), q[2], zero),
                       CAT(at_int("group", group), at_ints("strides", rank - 2, strides),
                           at_ints("pads", 2 * (rank - 2), pads)));
        y = build_node(&n.b, "Cast", NAMES(y), at_int("to", PARE_F32));
        n.any_layout = true;
        n.skip = others;
        check_net(&n, y, "ConvInteger", "conv_int8_exact");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_winograd_post_ops, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_conv_planes, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_winograd_lines, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_sum_after_activation, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_slices, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_pads, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_nearest, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_tiles, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_splits, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_picks_stay_blocked, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_transposed, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_long_transposed, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_resampling, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_axes, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_dynamic_quantization, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_random_dynamic_convolutions, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
