/* test_row_kernels.c - vectorized kernels of pools and others against reference kernels. */
#include "kernel_rig.h"

/* ---- pools -------------------------------------------------------------------------- */

static struct bin random_window(int nd, const int64_t *in, bool mean)
{
    int64_t k[3], stride[3], dilation[3], pads[6];
    struct bin all = NOTHING;

    for (int i = 0; i < nd; i++) {
        dilation[i] = in[i] > 6 ? random_between(1, 2) : 1;
        k[i] = random_between(1, (in[i] - 1) / dilation[i] + 1 < 14 ? (in[i] - 1) / dilation[i] + 1
                                                                    : 14);
        stride[i] = random_between(1, random_between(0, 5) ? 3 : 11);
        pads[i] = random_between(0, k[i] - 1);
        pads[nd + i] = random_between(0, k[i] - 1);
    }
    all = CAT(at_ints("kernel_shape", nd, k), at_ints("strides", nd, stride),
              at_ints("pads", 2 * nd, pads), at_int("ceil_mode", random_between(0, 1)));
    if (mean)
        return CAT(all, at_int("count_include_pad", random_between(0, 1)),
                   at_ints("dilations", nd, dilation));
    return CAT(all, at_ints("dilations", nd, dilation));
}

/* A few values that are not finite. */
static void put_specials(struct pare_tensor *t)
{
    static const float list[] = { NAN, INFINITY, -INFINITY };

    for (int i = 0; i < 3; i++)
        pare_f32_mut(t)[random_between(0, pare_numel(t) - 1)] = list[i];
}

/* Windows of one to three axes, row-major and in the layout of a convolution. */
static void test_random_pools(void **state)
{
    (void)state;
    pare_rng_init(&rng, 11);
    for (int i = 0; i < 240; i++) {
        int nd = (int)random_between(1, 3);
        int64_t c = random_between(1, 20), dim[5] = { random_between(1, 2), c, 0, 0, 0 };
        bool blocked = i % 2, mean = random_between(0, 1);
        struct rig r = { .b = { .opset = 19 }, .tolerance = 2e-6 };
        const char *x, *y;

        for (int k = 0; k < nd; k++)
            dim[k + 2] = random_between(1, nd == 3 ? 9 : nd == 2 ? 33 : 150);
        x = rig_input(&r, PARE_F32, nd + 2, dim);
        if (!blocked && !mean)
            put_specials(&r.in[0]);
        r.tolerance = blocked ? 2e-5 : r.tolerance;
        x = blocked ? rig_conv(&r.b, x, nd + 2, c) : x;
        y = build_node(&r.b, mean ? "AveragePool" : "MaxPool", NAMES(x),
                       random_window(nd, dim + 2, mean));
        rig_check(&r, blocked ? rig_conv(&r.b, y, nd + 2, c) : y, mean ? "AveragePool" : "MaxPool",
                  blocked ? NULL : "pool_lines");
    }
}

static void test_global_pools(void **state)
{
    (void)state;
    pare_rng_init(&rng, 12);
    for (int i = 0; i < 60; i++) {
        int64_t c = random_between(1, 40),
                dim[4] = { 2, c, random_between(1, 12), random_between(1, 12) };
        bool blocked = i % 2, mean = random_between(0, 1);
        const char *type = mean ? "GlobalAveragePool" : "GlobalMaxPool";
        struct rig r = { .b = { .opset = 19 }, .tolerance = blocked ? 2e-5 : 2e-6 };
        const char *x = rig_input(&r, PARE_F32, 4, dim), *y;

        if (!blocked && !mean)
            put_specials(&r.in[0]);
        x = blocked ? rig_conv(&r.b, x, 4, c) : x;
        y = build_node(&r.b, type, NAMES(x), NOTHING);
        rig_check(&r, blocked ? rig_conv(&r.b, y, 4, c) : y, type,
                  blocked && mean ? NULL : "pool_lines");
    }
}

/* ---- grouped convolutions --------------------------------------------------------- */

/* Groups of a few channels and outputs within a block, of one to three axes. */
static void test_narrow_groups(void **state)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 2, 2 }, { 4, 4 }, { 1, 2 },
                                         { 2, 1 }, { 4, 2 }, { 2, 4 }, { 1, 8 } };

    (void)state;
    pare_rng_init(&rng, 13);
    for (int i = 0; i < 160; i++) {
        const int64_t *g = shapes[i % 8], groups = 4 * random_between(1, 10) + random_between(0, 1);
        int64_t c = groups * g[0], out = groups * g[1], dim[5] = { 2, c }, w[5] = { out, g[0] };
        int64_t stride[3], dilation[3], pads[6];
        int nd = (int)random_between(1, 3);
        struct rig r = { .b = { .opset = 19 }, .tolerance = 2e-5 };
        bool fits = (i % 2 || out % 16 == 0) && g[0] <= g[1] &&
                    (g[0] == g[1] || (groups * g[0]) % 16 == 0 || c < 8);
        const char *x, *y;

        for (int k = 0; k < nd; k++) {
            w[k + 2] = i % 3 ? 3 : random_between(1, 5);
            dilation[k] = i % 3 ? 1 : random_between(1, 3);
            stride[k] = random_between(1, 2);
            pads[k] = random_between(0, 2);
            pads[nd + k] = random_between(0, 2);
            dim[k + 2] = (w[k + 2] - 1) * dilation[k] + random_between(1, nd == 3 ? 5 : 20);
        }
        x = rig_conv(&r.b, rig_input(&r, PARE_F32, nd + 2, dim), nd + 2, c);
        y = build_node(&r.b, "Conv",
                       NAMES(x, rig_weights(&r.b, nd + 2, w), rig_weights(&r.b, 1, &out)),
                       CAT(at_int("group", groups), at_ints("strides", nd, stride),
                           at_ints("dilations", nd, dilation), at_ints("pads", 2 * nd, pads)));
        y = i % 2 ? build_node(&r.b, "Relu", NAMES(y), NOTHING)
                  : build_node(&r.b, "Sigmoid", NAMES(y), NOTHING);
        rig_check(&r, rig_conv(&r.b, y, nd + 2, out), "Conv", fits ? "conv_depthwise" : NULL);
    }
}

/* ---- GridSample --------------------------------------------------------------------- */

/* All modes, row-major and after a convolution, with positions outside, NaN and infinities. */
static void test_grid_sample(void **state)
{
    static const char *const modes[] = { "linear", "nearest", "cubic" };
    static const char *const pads[] = { "zeros", "border", "reflection" };

    (void)state;
    pare_rng_init(&rng, 14);
    for (int i = 0; i < 72; i++) {
        int64_t c = random_between(1, 20), h = random_between(1, 20), w = random_between(1, 20);
        bool blocked = i % 2, fast = i % 3 < 2 && i / 6 % 3 < 2;
        struct rig r = { .b = { .opset = 20 }, .tolerance = blocked ? 3e-5 : 3e-6 };
        const char *x = rig_input(&r, PARE_F32, INTS(2, c, h, w)), *y;
        const char *g = rig_input(&r, PARE_F32,
                                  INTS(2, random_between(1, 20), random_between(1, 20), 2));

        if (!blocked)
            put_specials(&r.in[0]);
        put_specials(&r.in[1]);
        pare_f32_mut(&r.in[1])[0] = 1e30f;
        x = blocked ? rig_conv(&r.b, x, 4, c) : x;
        y = build_node(&r.b, "GridSample", NAMES(x, g),
                       CAT(at_text("mode", modes[i % 3]), at_text("padding_mode", pads[i / 6 % 3]),
                           at_int("align_corners", i / 18 % 2)));
        rig_check(&r, blocked ? rig_conv(&r.b, y, 4, c) : y, "GridSample",
                  fast ? "grid_sample_rows" : NULL);
    }
}

/* ---- comparisons, logic, Where, Cast ---------------------------------------------------- */

/* A shape that is broadcast to dim: some axes are 1, leading ones may be missing. */
static const char *broadcast_input(struct rig *r, int dtype, const int64_t *dim)
{
    int64_t own[4];
    int first = (int)random_between(0, 2);

    for (int i = 0; i < 4; i++)
        own[i] = random_between(0, 3) ? dim[i] : 1;
    return rig_input(r, dtype, 4 - first, own + first);
}

static void test_selections(void **state)
{
    static const struct {
        const char *op;
        int type[3]; /* of the inputs; 0: none */
        int to;      /* Cast */
    } list[] = {
        { "Equal", { PARE_F32, PARE_F32 }, 0 },
        { "Equal", { PARE_I32, PARE_I32 }, 0 },
        { "Equal", { PARE_I64, PARE_I64 }, 0 },
        { "Greater", { PARE_F32, PARE_F32 }, 0 },
        { "Greater", { PARE_I64, PARE_I64 }, 0 },
        { "Less", { PARE_F32, PARE_F32 }, 0 },
        { "Less", { PARE_I32, PARE_I32 }, 0 },
        { "GreaterOrEqual", { PARE_F32, PARE_F32 }, 0 },
        { "LessOrEqual", { PARE_I64, PARE_I64 }, 0 },
        { "And", { PARE_BOOL, PARE_BOOL }, 0 },
        { "Or", { PARE_BOOL, PARE_BOOL }, 0 },
        { "Xor", { PARE_BOOL, PARE_BOOL }, 0 },
        { "Not", { PARE_BOOL }, 0 },
        { "Cast", { PARE_BOOL }, PARE_F32 },
        { "Cast", { PARE_BOOL }, PARE_I64 },
        { "Cast", { PARE_I64 }, PARE_F32 },
        { "Cast", { PARE_I32 }, PARE_F32 },
        { "Cast", { PARE_F32 }, PARE_BOOL },
        { "Cast", { PARE_I64 }, PARE_BOOL },
        { "Cast", { PARE_I32 }, PARE_I64 },
        { "Where", { PARE_BOOL, PARE_F32, PARE_F32 }, 0 },
        { "Where", { PARE_BOOL, PARE_I64, PARE_I64 }, 0 },
    };

    (void)state;
    pare_rng_init(&rng, 17);
    for (size_t e = 0; e < sizeof(list) / sizeof(*list); e++)
        for (int i = 0; i < 8; i++) {
            int64_t dim[4] = { random_between(1, 3), random_between(1, 5), random_between(1, 40),
                               random_between(1, i % 4 ? 50 : 1500) };
            struct rig r = { .b = { .opset = 17 } };
            const char *name[3];
            int n = 0;

            for (; n < 3 && list[e].type[n]; n++) {
                name[n] = broadcast_input(&r, list[e].type[n], dim);
                if (list[e].type[n] == PARE_F32)
                    put_specials(&r.in[n]);
            }
            rig_check(&r,
                      build_node(&r.b, list[e].op, n, name,
                                 list[e].to ? at_int("to", list[e].to) : NOTHING),
                      list[e].op, "select_rows");
        }
}

/* ---- taps in the padding -------------------------------------------------------------- */

/* Dilations beyond the image: the outer taps of a filter only read padding. */
static void test_dead_taps(void **state)
{
    (void)state;
    pare_rng_init(&rng, 16);
    for (int i = 0; i < 60; i++) {
        int64_t h = random_between(1, 9), w = random_between(1, 9), d = random_between(1, 12);
        int64_t k = random_between(1, 4), pads[4], stride = random_between(1, 3);
        struct rig r = { .b = { .opset = 17 }, .tolerance = 2e-5 };
        const char *x = rig_input(&r, PARE_F32, INTS(1, 6, h, w));

        for (int a = 0; a < 4; a++)
            pads[a] = d * (k - 1) / 2 + random_between(0, d * (k - 1) / 2 + 1);
        rig_check(&r,
                  build_node(&r.b, "Conv", NAMES(x, rig_weights(&r.b, INTS(5, 6, k, k))),
                             CAT(at_ints("dilations", INTS(d, d)), at_ints("pads", 4, pads),
                                 at_ints("strides", INTS(stride, stride)))),
                  "Conv", NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_pools, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_global_pools, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_narrow_groups, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_grid_sample, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_selections, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_dead_taps, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
