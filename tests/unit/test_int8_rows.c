/* test_int8_rows.c - int8 layers in graphs whose images have their channels last. */
#include "int8_rig.h"

static int count(const struct pare_plan *p, const char *kernel)
{
    int n = 0;

    for (int i = 0; i < p->n_steps; i++)
        n += !strcmp(p->step[i]->kernel->name, kernel);
    return n;
}

/* On a CPU with VNNI; others run these convolutions in float32. */
static void expect_counts(const struct rig *g, int casts, int reorders)
{
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_model *m = build_model(&g->b);
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p, &err))
        fail_msg("%s", err.msg);
    if (p->backend.vnni) {
        assert_int_equal(count(p, "int8_cast"), casts);
        assert_int_equal(count(p, "reorder"), reorders);
    }
    pare_plan_free(p);
    pare_model_free(m);
}

/* x (N, H, W, C) -> Transpose -> Conv -> QuantizeLinear, which reads x as it is. */
static void check_conv(uint64_t seed, int64_t k, int64_t C, int64_t group)
{
    int64_t O = group > 1 ? C : 20, pad[] = { k / 2, k / 2, k / 2, k / 2 };
    const char *x, *w, *b = "", *y;
    struct rig g;

    rig_begin(&g, seed);
    x = dequantized_input(&g, seed % 2 ? PARE_U8 : PARE_I8, 3, 4, (int64_t[]){ 2, 9, 11, C });
    x = build_node(&g.b, "Transpose", NAMES(x), at_ints("perm", 4, (int64_t[]){ 0, 3, 1, 2 }));
    w = quantized_weights(&g, 4, (int64_t[]){ O, C / group, k, k }, 0, &b);
    y = build_node(&g.b, "Conv", NAMES(x, w, b),
                   CAT(at_int("group", group), at_ints("pads", 4, pad)));
    y = quantize(&g, y, output_scale(&g, (double)(C / group * k * k)), PARE_U8, 100);
    build_output(&g.b, y);
    expect_counts(&g, 0, 1); /* the output */
    check_kernel(&g, NULL, seed, 1);
}

static void test_convolutions_read_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        check_conv(seed, 7, 70, 70);
        check_conv(seed, 5, 64, 64);
        check_conv(seed, 9, 40, 40); /* more taps than are listed at a time */
        check_conv(seed, 3, 32, 1);
        check_conv(seed, 1, 24, 1);
    }
    report_equal("convolutions of rows", 0.99);
}

/* x and conv(x) meet in an Add in rows, so that the Transpose stays after DequantizeLinear. */
static void test_residual_in_rows(void **state)
{
    enum { C = 64 };
    int64_t pad[] = { 3, 3, 3, 3 };
    const char *x, *w, *b = "", *y;
    struct rig g;

    (void)state;
    rig_begin(&g, 7);
    x = dequantized_input(&g, PARE_U8, 90, 4, (int64_t[]){ 2, 9, 11, C });
    w = quantized_weights(&g, 4, (int64_t[]){ C, 1, 7, 7 }, 0, &b);
    y = build_node(&g.b, "Transpose", NAMES(x), at_ints("perm", 4, (int64_t[]){ 0, 3, 1, 2 }));
    y = build_node(&g.b, "Conv", NAMES(y, w, b), CAT(at_int("group", C), at_ints("pads", 4, pad)));
    y = quantize(&g, y, output_scale(&g, 49), PARE_U8, 120);
    y = dequantize(&g, y, g.real_scale, PARE_U8, 120);
    y = build_node(&g.b, "Transpose", NAMES(y), at_ints("perm", 4, (int64_t[]){ 0, 2, 3, 1 }));
    y = build_node(&g.b, "Add", NAMES(x, y), NOTHING);
    build_output(&g.b, quantize(&g, y, 2 * output_scale(&g, 49), PARE_U8, 120));
    g.real = NULL;
    check_kernel(&g, "conv_depthwise_int8", 7, 1);
    report_equal("a residual in rows", 0.99);
}

static const char *random_row(struct rig *g, int64_t n)
{
    float *v = pare_alloc(pool, (size_t)n, sizeof(*v));

    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(0.5 + pare_rng_uniform(&g->r));
    return build_floats(&g->b, 1, &n, v);
}

static const char *product(struct rig *g, const char *x, int64_t K, int64_t N)
{
    return build_node(&g->b, "MatMul",
                      NAMES(x, quantized_weights(g, 2, (int64_t[]){ K, N }, 1, NULL)), NOTHING);
}

/* A block of ConvNeXt: depthwise 7x7, LayerNormalization, two products with Gelu between them, all
 * of which are quantized; one cast before LayerNormalization, and no reorders. */
static void test_block_with_channels_last(void **state)
{
    enum { C = 64, WIDE = 96 };
    int64_t pad[] = { 3, 3, 3, 3 };
    float third = 0.02f, unit = 0.03f;
    const char *x, *w, *b = "", *y;
    struct rig g;

    (void)state;
    rig_begin(&g, 5);
    g.b.opset = 20;
    x = dequantized_input(&g, PARE_U8, 100, 4, (int64_t[]){ 1, 8, 9, C });
    x = build_node(&g.b, "Transpose", NAMES(x), at_ints("perm", 4, (int64_t[]){ 0, 3, 1, 2 }));
    w = quantized_weights(&g, 4, (int64_t[]){ C, 1, 7, 7 }, 0, &b);
    y = build_node(&g.b, "Conv", NAMES(x, w, b), CAT(at_int("group", C), at_ints("pads", 4, pad)));
    y = quantize(&g, y, output_scale(&g, 49), PARE_U8, 120);
    y = dequantize(&g, y, g.real_scale, PARE_U8, 120);
    y = build_node(&g.b, "Transpose", NAMES(y), at_ints("perm", 4, (int64_t[]){ 0, 2, 3, 1 }));
    y = build_node(&g.b, "LayerNormalization", NAMES(y, random_row(&g, C), random_row(&g, C)),
                   at_int("axis", -1));
    y = dequantize(&g, quantize(&g, y, unit, PARE_U8, 110), unit, PARE_U8, 110);
    y = product(&g, y, C, WIDE);
    y = build_node(&g.b, "Gelu", NAMES(y), NOTHING);
    y = dequantize(&g, quantize(&g, y, third, PARE_I8, -100), third, PARE_I8, -100);
    y = product(&g, y, WIDE, 24);
    g.real = NULL; /* a value that rounds the other way changes sums after it */
    build_output(&g.b, quantize(&g, y, 0.5f, PARE_U8, 128));
    g.real = NULL;
    expect_counts(&g, 1, 0);
    check_kernel(&g, NULL, 0, 1);
    report_equal("a block with its channels last", 0.98);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_convolutions_read_rows, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_residual_in_rows, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_block_with_channels_last, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
