/* test_int8.c - quantized graphs on int8 kernels against the reference operators. */
#include "int8_rig.h"

enum { TRIALS = 200 };

/* ---- convolutions ------------------------------------------------------------------------ */

struct geometry {
    int64_t N, C, H, W, O, k, stride, dilation, pad[4], group;
};

static struct geometry random_geometry(struct rig *g)
{
    struct geometry c = { .N = random_between(g, 1, 2),
                          .H = random_between(g, 5, 14),
                          .W = random_between(g, 5, 14),
                          .k = random_between(g, 0, 1) ? 1 : 3,
                          .stride = random_between(g, 1, 2),
                          .dilation = 1,
                          .group = 1 };

    c.C = random_between(g, 1, 40);
    c.O = random_between(g, 1, 40);
    if (random_between(g, 0, 3) == 0)
        c.dilation = 2;
    if (random_between(g, 0, 3) == 0)
        c.group = c.O = c.C;
    else if (random_between(g, 0, 3) == 0) {
        c.group = 2;
        c.C *= 2;
        c.O *= 2;
    }
    for (int i = 0; i < 4; i++)
        c.pad[i] = random_between(g, 0, c.k > 1 ? 2 : 1);
    return c;
}

static struct bin conv_attrs(const struct geometry *c)
{
    return CAT(at_int("group", c->group),
               at_ints("strides", 2, (int64_t[]){ c->stride, c->stride }),
               at_ints("dilations", 2, (int64_t[]){ c->dilation, c->dilation }),
               at_ints("pads", 4, c->pad));
}

static void check_conv(uint64_t seed)
{
    struct rig g;
    struct geometry c;
    int xt, yt, xz, yz;
    const char *x, *w, *b = "", *y;
    bool biased;

    rig_begin(&g, seed);
    c = random_geometry(&g);
    xt = random_between(&g, 0, 1) ? PARE_U8 : PARE_I8;
    yt = random_between(&g, 0, 1) ? PARE_U8 : PARE_I8;
    xz = (int)(xt == PARE_U8 ? random_between(&g, 0, 255) : random_between(&g, -128, 127));
    yz = (int)(yt == PARE_U8 ? random_between(&g, 0, 255) : random_between(&g, -128, 127));
    xz = random_between(&g, 0, 2) ? xz : 0;
    yz = random_between(&g, 0, 2) ? yz : 0;
    x = dequantized_input(&g, xt, xz, 4, (int64_t[]){ c.N, c.C, c.H, c.W });
    biased = random_between(&g, 0, 1);
    w = quantized_weights(&g, 4, (int64_t[]){ c.O, c.C / c.group, c.k, c.k }, 0,
                          biased ? &b : NULL);
    y = build_node(&g.b, "Conv", 2 + biased, (const char *[]){ x, w, b }, conv_attrs(&c));
    if (random_between(&g, 0, 2) == 0)
        y = build_node(&g.b, "Relu", NAMES(y), NOTHING);
    else if (random_between(&g, 0, 2) == 0)
        y = build_node(&g.b, "Clip",
                       NAMES(y, build_scalar(&g.b, -1), build_scalar(&g.b, 30 * g.x_scale)),
                       NOTHING);
    y = quantize(&g, y, output_scale(&g, (double)(c.C / c.group * c.k * c.k)), yt, yz);
    build_output(&g.b, y);
    check_kernel(&g, "conv_int8", seed, 1);
}

/* The same convolution as one QLinearConv node. */
static void check_qlinear_conv(uint64_t seed)
{
    const char *in[9], *y;
    int zero, t;
    int8_t *w, *wz;
    float *s;
    int32_t *b;
    int64_t n, dim[4];
    struct rig g;
    struct geometry c;

    rig_begin(&g, seed);
    c = random_geometry(&g);
    t = random_between(&g, 0, 1) ? PARE_U8 : PARE_I8;
    zero = (int)random_between(&g, 0, 127);
    dequantized_input(&g, t, zero, 4, (int64_t[]){ c.N, c.C, c.H, c.W });
    memcpy(dim, (int64_t[]){ c.O, c.C / c.group, c.k, c.k }, sizeof(dim));
    n = dim[0] * dim[1] * dim[2] * dim[3];
    w = pare_alloc(pool, (size_t)n, 1);
    wz = pare_alloc(pool, (size_t)c.O, 1);
    s = pare_alloc(pool, (size_t)c.O, sizeof(*s));
    b = pare_alloc(pool, (size_t)c.O, sizeof(*b));
    for (int64_t i = 0; i < n; i++)
        w[i] = (int8_t)random_between(&g, -100, 100);
    for (int64_t i = 0; i < c.O; i++) {
        wz[i] = (int8_t)random_between(&g, -20, 20);
        s[i] = (float)(0.001 + 0.01 * pare_rng_uniform(&g.r));
        b[i] = (int32_t)random_between(&g, -20000, 20000);
    }
    in[0] = "v0"; /* the graph's input is the first name */
    in[1] = g.xs;
    in[2] = g.xz;
    in[3] = build_const(&g.b, PARE_I8, 4, dim, w);
    in[4] = build_floats(&g.b, 1, &c.O, s);
    in[5] = build_const(&g.b, PARE_I8, 1, &c.O, wz);
    in[6] = build_scalar(&g.b, output_scale(&g, (double)(c.C / c.group * c.k * c.k)));
    in[7] = zero_point(&g, PARE_U8, 99);
    in[8] = build_const(&g.b, PARE_I32, 1, &c.O, b);
    y = build_node(&g.b, "QLinearConv", (int)random_between(&g, 8, 9), in, conv_attrs(&c));
    build_output(&g.b, y);
    check_kernel(&g, "conv_int8", seed, 1);
}

static void test_convolutions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        if (seed % 3)
            check_conv(seed);
        else
            check_qlinear_conv(seed);
        pare_reset(pool, m);
    }
    report_equal("Conv", 0.999);
}

/* ---- products ------------------------------------------------------------------------------ */

static void check_product(uint64_t seed)
{
    struct rig g;
    int64_t M, K, N;
    const char *x, *w, *b = NULL, *y;
    int kind, xz;

    rig_begin(&g, seed);
    M = random_between(&g, 1, 9);
    K = random_between(&g, 1, 200);
    N = random_between(&g, 1, 60);
    kind = (int)random_between(&g, 0, 2);
    xz = (int)random_between(&g, 0, 100);
    x = dequantized_input(&g, random_between(&g, 0, 1) ? PARE_U8 : PARE_I8, xz, 2,
                          (int64_t[]){ M, K });
    if (kind == 2) { /* W is (N, K) */
        w = quantized_weights(&g, 2, (int64_t[]){ N, K }, 0, &b);
        y = build_node(&g.b, "Gemm", NAMES(x, w, b), at_int("transB", 1));
    } else if (kind == 1) {
        w = quantized_weights(&g, 2, (int64_t[]){ K, N }, 1, &b);
        y = build_node(&g.b, "MatMul", NAMES(x, w), NOTHING);
        y = build_node(&g.b, "Add", NAMES(y, b), NOTHING);
    } else {
        w = quantized_weights(&g, 2, (int64_t[]){ K, N }, 1, NULL);
        y = build_node(&g.b, "MatMul", NAMES(x, w), NOTHING);
    }
    if (random_between(&g, 0, 1))
        y = build_node(&g.b, "Relu", NAMES(y), NOTHING);
    build_output(&g.b, quantize(&g, y, output_scale(&g, (double)K), PARE_U8, 90));
    check_kernel(&g, "linear_int8", seed, 1);
}

static void test_products(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_product(seed);
        pare_reset(pool, m);
    }
    report_equal("Gemm and MatMul", 0.999);
}

/* ---- elementwise operators and pools -------------------------------------------------- */

static void check_elementwise(uint64_t seed, int kind)
{
    static const char *const kernel[] = { "int8_add",    "int8_pool", "int8_pool", "int8_pool",
                                          "int8_concat", "int8_map",  "int8_map" };
    const int64_t two[] = { 2, 2 }, three[] = { 3, 3 }, ones[] = { 1, 1, 1, 1 };
    struct bin window = CAT(at_ints("kernel_shape", 2, three), at_ints("strides", 2, two),
                            at_ints("pads", 4, ones));
    struct bin same = CAT(at_ints("kernel_shape", 2, three), at_ints("pads", 4, ones));
    int t = seed & 1 ? PARE_U8 : PARE_I8, z;
    const char *x, *y, *half;
    struct rig g;

    rig_begin(&g, seed);
    z = (int)random_between(&g, 0, 100);
    x = dequantized_input(&g, t, z, 4,
                          (int64_t[]){ random_between(&g, 1, 2), random_between(&g, 1, 300),
                                       random_between(&g, 3, 9), random_between(&g, 3, 9) });
    half = build_node(&g.b, "MaxPool", NAMES(x), same); /* not an elementwise function of x */
    half = build_node(&g.b, "Mul", NAMES(half, build_scalar(&g.b, 0.5f)), NOTHING);
    half = dequantize(&g, quantize(&g, half, 0.02f, PARE_I8, -5), 0.02f, PARE_I8, -5);
    switch (kind) {
    case 0:
        y = build_node(&g.b, "Add", NAMES(x, half), NOTHING);
        y = build_node(&g.b, "Relu", NAMES(y), NOTHING);
        break;
    case 1: y = build_node(&g.b, "MaxPool", NAMES(x), window); break;
    case 2: y = build_node(&g.b, "AveragePool", NAMES(x), window); break;
    case 3: y = build_node(&g.b, "GlobalAveragePool", NAMES(x), NOTHING); break;
    case 4: y = build_node(&g.b, "Concat", NAMES(x, half), at_int("axis", 1)); break;
    case 5: y = build_node(&g.b, "HardSwish", NAMES(x), NOTHING); break;
    default: y = build_node(&g.b, "Flatten", NAMES(x), NOTHING); break;
    }
    y = quantize(&g, y, kind == 0 ? 0.07f : g.x_scale, t, z);
    build_output(&g.b, dequantize(&g, y, 1, t, z));
    g.b.opset = 14;
    check_kernel(&g, kernel[kind], seed, kind == 0 || kind == 2 || kind == 3);
}

static void test_elementwise_and_pools(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 140; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_elementwise(seed, (int)(seed % 7));
        pare_reset(pool, m);
    }
    /* Means can be exactly halfway between two integers, where either rounding is correct. */
    report_equal("between convolutions", 0.99);
}

/* QuantizeLinear after a pool and a view is hoisted to the convolution. */
static void test_quantize_is_hoisted_above_pool(void **state)
{
    struct bin window = CAT(at_ints("kernel_shape", 2, (int64_t[]){ 2, 2 }),
                            at_ints("strides", 2, (int64_t[]){ 2, 2 }));
    const char *x, *w, *y;
    struct rig g;

    (void)state;
    rig_begin(&g, 3);
    x = dequantized_input(&g, PARE_U8, 7, 4, (int64_t[]){ 2, 5, 9, 9 });
    w = quantized_weights(&g, 4, (int64_t[]){ 11, 5, 3, 3 }, 0, NULL);
    y = build_node(&g.b, "Conv", NAMES(x, w), NOTHING);
    y = build_node(&g.b, "Relu", NAMES(y), NOTHING);
    y = build_node(&g.b, "MaxPool", NAMES(y), window);
    y = build_node(&g.b, "Flatten", NAMES(y), NOTHING);
    build_output(&g.b, quantize(&g, y, output_scale(&g, 45), PARE_I8, -100));
    check_kernel(&g, "int8_pool", 3, 1);
    report_equal("after a pool", 0.99);
}

/* ---- a network --------------------------------------------------------------------- */

static const char *add_block(struct rig *g, const char *x, int64_t C, float scale, bool relu)
{
    const char *b = NULL, *w, *y;

    g->x_scale = scale;
    w = quantized_weights(g, 4, (int64_t[]){ C, C, 3, 3 }, 0, &b);
    y = build_node(&g->b, "Conv", NAMES(x, w, b), at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 }));
    if (relu)
        y = build_node(&g->b, "Relu", NAMES(y), NOTHING);
    y = quantize(g, y, 30 * scale, PARE_U8, relu ? 0 : 128);
    return dequantize(g, y, scale, PARE_U8, relu ? 0 : 128);
}

/* A residual block, pools, a depthwise convolution and a classifier, float to float; scales chosen
 * so that one quantization step at the input is less than one at the output. */
static void test_network(void **state)
{
    const int64_t dim[] = { 1, 3, 12, 12 };
    struct rig g;
    const char *x, *y, *z, *w, *b = NULL;

    (void)state;
    rig_begin(&g, 5);
    x = build_input(&g.b, PARE_F32, 4, dim);
    g.x = build_tensor(PARE_F32, 4, dim);
    for (int64_t i = 0; i < pare_numel(&g.x); i++)
        pare_f32_mut(&g.x)[i] = (float)pare_rng_normal(&g.r);
    x = dequantize(&g, quantize(&g, x, 0.03f, PARE_U8, 120), 0.03f, PARE_U8, 120);
    x = build_node(&g.b, "Concat", NAMES(x, x, x, x, x, x), at_int("axis", 1));
    x = dequantize(&g, quantize(&g, x, 0.03f, PARE_U8, 120), 0.03f, PARE_U8, 120);
    y = add_block(&g, x, 18, 0.03f, true);
    y = add_block(&g, y, 18, 0.03f, false);
    z = build_node(&g.b, "Relu", NAMES(build_node(&g.b, "Add", NAMES(x, y), NOTHING)), NOTHING);
    z = dequantize(&g, quantize(&g, z, 0.04f, PARE_U8, 0), 0.04f, PARE_U8, 0);
    z = build_node(&g.b, "MaxPool", NAMES(z),
                   CAT(at_ints("kernel_shape", 2, (int64_t[]){ 2, 2 }),
                       at_ints("strides", 2, (int64_t[]){ 2, 2 })));
    z = dequantize(&g, quantize(&g, z, 0.04f, PARE_U8, 0), 0.04f, PARE_U8, 0);
    z = build_node(&g.b, "Sigmoid", NAMES(z), NOTHING); /* no int8 tensor after it */
    z = build_node(&g.b, "Mul", NAMES(z, z), NOTHING);
    z = dequantize(&g, quantize(&g, z, 0.005f, PARE_I8, -128), 0.005f, PARE_I8, -128);
    z = build_node(&g.b, "GlobalAveragePool", NAMES(z), NOTHING);
    z = dequantize(&g, quantize(&g, z, 0.005f, PARE_I8, -128), 0.005f, PARE_I8, -128);
    z = build_node(&g.b, "Flatten", NAMES(z), NOTHING);
    g.x_scale = 0.005f;
    w = quantized_weights(&g, 2, (int64_t[]){ 10, 18 }, 0, &b);
    build_output(&g.b, build_node(&g.b, "Gemm", NAMES(z, w, b), at_int("transB", 1)));
    check_kernel(&g, "linear_int8", 0, 0.01);
    memset(&totals, 0, sizeof(totals));
}

/* ---- integer operators with the largest sums --------------------------------------- */

/* All inputs are `x`, all weights `w`: sums of products 255 * 127 exceed 16 bits. */
static void check_extreme_conv(const char *type, int64_t C, int x, int w, bool is_u8)
{
    int t = is_u8 ? PARE_U8 : PARE_I8;
    int64_t dim[] = { 1, C, 6, 6 }, wdim[] = { 20, C, 3, 3 };
    struct bin pads = at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 });
    int8_t *wq = pare_alloc(pool, (size_t)(20 * C * 9), 1);
    const char *xn, *wn, *y, *one, *big, *none, *wz;
    struct rig g;

    rig_begin(&g, 1);
    xn = build_input(&g.b, t, 4, dim);
    g.x = build_tensor(t, 4, dim);
    memset(g.x.data, x, (size_t)pare_numel(&g.x));
    memset(wq, w, (size_t)(20 * C * 9));
    wn = build_const(&g.b, PARE_I8, 4, wdim, wq);
    one = build_scalar(&g.b, 1);
    big = build_scalar(&g.b, (float)C * 9 * 255 * 127 / 100);
    none = zero_point(&g, t, 0);
    wz = zero_point(&g, PARE_I8, 0);
    g.long_sums = C > 14;
    if (!strcmp(type, "QLinearConv")) {
        y = build_node(&g.b, type,
                       NAMES(xn, one, none, wn, one, wz, big, zero_point(&g, PARE_U8, 128)), pads);
    } else if (!strcmp(type, "Conv")) {
        xn = build_node(&g.b, "DequantizeLinear", NAMES(xn, one, none), NOTHING);
        wn = build_node(&g.b, "DequantizeLinear", NAMES(wn, one, wz), NOTHING);
        y = build_node(&g.b, type, NAMES(xn, wn), pads);
        y = build_node(&g.b, "QuantizeLinear", NAMES(y, big, zero_point(&g, PARE_U8, 128)),
                       NOTHING);
    } else
        y = build_node(&g.b, type, NAMES(xn, wn, none, wz), pads);
    build_output(&g.b, y);
    check_kernel(&g, strcmp(type, "ConvInteger") != 0 || C < 50 ? "conv_int8" : NULL, (uint64_t)C,
                 0);
}

static void check_extreme_matmul(int64_t M, int64_t K, int x, int w, bool is_u8)
{
    int t = is_u8 ? PARE_U8 : PARE_I8;
    int64_t dim[] = { M, K }, wdim[] = { K, 40 };
    int8_t *wq = pare_alloc(pool, (size_t)(40 * K), 1);
    const char *xn, *y;
    struct rig g;

    rig_begin(&g, 1);
    xn = build_input(&g.b, t, 2, dim);
    g.x = build_tensor(t, 2, dim);
    memset(g.x.data, x, (size_t)pare_numel(&g.x));
    memset(wq, w, (size_t)(40 * K));
    y = build_node(&g.b, "MatMulInteger",
                   NAMES(xn, build_const(&g.b, PARE_I8, 2, wdim, wq), zero_point(&g, t, 3),
                         zero_point(&g, PARE_I8, 0)),
                   NOTHING);
    build_output(&g.b, y);
    check_kernel(&g, "linear_int8", (uint64_t)K, 0);
}

static void test_largest_sums(void **state)
{
    static const int edge[][3] = { { 255, 127, 1 }, { 255, -128, 1 },  { 1, -128, 1 },
                                   { 127, 127, 0 }, { -128, -128, 0 }, { -128, 127, 0 },
                                   { 100, 1, 0 },   { 255, -65, 1 } };

    (void)state;
    for (size_t i = 0; i < sizeof(edge) / sizeof(*edge); i++)
        for (int64_t C = 1; C < 70; C += 17) {
            check_extreme_conv("QLinearConv", C, edge[i][0], edge[i][1], edge[i][2]);
            check_extreme_conv("ConvInteger", C, edge[i][0], edge[i][1], edge[i][2]);
            check_extreme_conv("Conv", C, edge[i][0], edge[i][1], edge[i][2]);
            check_extreme_matmul(1, C * 16, edge[i][0], edge[i][1], edge[i][2]);
            check_extreme_matmul(7, C * 16, edge[i][0], edge[i][1], edge[i][2]);
            check_extreme_matmul(20, 3000, edge[i][0], edge[i][1], edge[i][2]);
        }
    report_equal("largest sums", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_convolutions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_products, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_elementwise_and_pools, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_quantize_is_hoisted_above_pool, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_network, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_largest_sums, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
