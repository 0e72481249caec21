/* test_int8_function.c - int8 function tables, chains and exact Winograd against the reference. */
#include "int8_rig.h"

#include "backend/fuse/int8_operands.h"
#include "base/cpu_limit.h"

enum { TRIALS = 60 };

static bool has_vnni, has_avx2;

/* Compares a plan without the kernels `without` with the reference; results may differ by one
 * quantization step at halves.  The plan must use `kernel` if the machine has VNNI,
 * and a convolution or int8_norm if it has AVX2. */
static void compare_with_reference(struct rig *g, const char *const *without, const char *kernel,
                                   uint64_t seed)
{
    struct pare_model *m = build_model(&g->b);
    struct pare_tensor want = run_model(m, g, true, 1, NULL), real = float_values(g);

    for (int threads = 1; threads <= 3; threads++) {
        struct pare_plan_opts o = { .threads = threads };
        struct pare_tensor got;
        struct pare_plan *p;
        struct pare_err err;

        if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o, .without = without }, &p,
                            &err))
            fail_msg("%s", err.msg);
        if ((has_vnni ||
             (has_avx2 && (!strncmp(kernel, "conv_", 5) || !strcmp(kernel, "int8_norm")))) &&
            *kernel && !has_kernel(p, kernel))
            fail_msg("seed %llu: the plan does not use %s", (unsigned long long)seed, kernel);
        memset(p->memory, 0xff, p->memory_bytes);
        if (pare_plan_execute(p, &g->x, &got, &err))
            fail_msg("%s", err.msg);
        for (int64_t i = 0; i < pare_numel(&want); i++) {
            double d = fabs(pare_get(&got, i) - pare_get(&want, i));

            if (d > 1 || (d > 0 && !near_half(g, &real, i)))
                fail_msg("seed %llu: element %lld is %g, expected %g", (unsigned long long)seed,
                         (long long)i, pare_get(&got, i), pare_get(&want, i));
        }
        pare_plan_free(p);
    }
    pare_model_free(m);
}

/* ---- Winograd ----------------------------------------------------------------------------- */

static void check_winograd(uint64_t seed)
{
    static const char *const without[] = { "conv_int8", "conv_int8_exact", NULL };
    int64_t N, C, H, W, O, pad[4];
    int xt, xz;
    const char *x, *w, *b = NULL, *y;
    struct rig g;

    rig_begin(&g, seed);
    N = random_between(&g, 1, 3);
    C = random_between(&g, 1, 75);
    O = random_between(&g, 1, 75);
    H = random_between(&g, 3, 21);
    W = random_between(&g, 3, 21);
    for (int i = 0; i < 4; i++)
        pad[i] = random_between(&g, 0, 2);
    xt = random_between(&g, 0, 1) ? PARE_U8 : PARE_I8;
    xz = (int)(xt == PARE_U8 ? random_between(&g, 0, 255) : random_between(&g, -128, 127));
    x = dequantized_input(&g, xt, xz, 4, (int64_t[]){ N, C, H, W });
    w = quantized_weights(&g, 4, (int64_t[]){ O, C, 3, 3 }, 0, &b);
    y = build_node(&g.b, "Conv", NAMES(x, w, b), at_ints("pads", 4, pad));
    if (random_between(&g, 0, 1))
        y = build_node(&g.b, "Relu", NAMES(y), NOTHING);
    y = quantize(&g, y, output_scale(&g, (double)C * 9), seed & 1 ? PARE_U8 : PARE_I8,
                 (int)random_between(&g, 0, 100));
    build_output(&g.b, y);
    compare_with_reference(&g, without, "conv_winograd_int8", seed);
}

/* The largest values: with more channels the sums are computed in several blocks. */
static void check_largest_sums(int64_t C, int value, int weight)
{
    static const char *const without[] = { "conv_int8", "conv_int8_exact", NULL };
    const int64_t dim[] = { 5, C, 3, 3 }, ones[] = { 1, 1, 1, 1 };
    int8_t *w = pare_alloc(pool, (size_t)(5 * C * 9), 1);
    const char *x, *y;
    struct rig g;

    rig_begin(&g, 7);
    x = dequantized_input(&g, PARE_U8, 0, 4, (int64_t[]){ 1, C, 5, 6 });
    memset(g.x.data, value, (size_t)pare_numel(&g.x));
    memset(w, weight, (size_t)(5 * C * 9));
    y = build_node(&g.b, "DequantizeLinear",
                   NAMES(build_const(&g.b, PARE_I8, 4, dim, w), build_scalar(&g.b, 1),
                         zero_point(&g, PARE_I8, 0)),
                   NOTHING);
    y = build_node(&g.b, "Conv", NAMES(x, y), at_ints("pads", 4, ones));
    y = quantize(&g, y, g.x_scale * (float)(9 * C) * 130, PARE_I8, 0);
    build_output(&g.b, y);
    compare_with_reference(&g, without, "conv_winograd_int8", 7);
}

static void test_winograd(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_winograd(seed);
        pare_reset(pool, m);
    }
    check_largest_sums(100, 255, 127);  /* 2.9e7 in one block */
    check_largest_sums(203, 255, -128); /* two blocks */
    check_largest_sums(450, 255, 127);  /* four blocks */
}

/* ---- depthwise ---------------------------------------------------------------------------- */

static void check_depthwise(uint64_t seed)
{
    static const char *const none[] = { "", NULL };
    int64_t N, C, H, W, k[2], pad[4], stride[2], dilation[2];
    int xt, xz;
    const char *x, *w, *b = NULL, *y;
    struct rig g;

    rig_begin(&g, seed);
    N = random_between(&g, 1, 2);
    C = random_between(&g, 1, 150);
    H = random_between(&g, 9, 17);
    W = random_between(&g, 9, 17);
    for (int i = 0; i < 2; i++) {
        k[i] = random_between(&g, 0, 2) ? 3 + 2 * (int64_t)(seed % 3) : random_between(&g, 1, 8);
        stride[i] = random_between(&g, 1, 3);
        dilation[i] = k[i] < 5 ? random_between(&g, 1, 2) : 1;
    }
    for (int i = 0; i < 4; i++)
        pad[i] = random_between(&g, 0, 3);
    xt = random_between(&g, 0, 1) ? PARE_U8 : PARE_I8;
    xz = (int)(xt == PARE_U8 ? random_between(&g, 0, 255) : random_between(&g, -128, 127));
    x = dequantized_input(&g, xt, xz, 4, (int64_t[]){ N, C, H, W });
    w = quantized_weights(&g, 4, (int64_t[]){ C, 1, k[0], k[1] }, 0, &b);
    y = build_node(&g.b, "Conv", NAMES(x, w, b),
                   CAT(at_ints("pads", 4, pad), at_ints("strides", 2, stride),
                       at_ints("dilations", 2, dilation), at_int("group", C)));
    if (random_between(&g, 0, 1))
        y = build_node(&g.b, "Clip",
                       NAMES(y, build_scalar(&g.b, 0), build_scalar(&g.b, 30 * g.x_scale)),
                       NOTHING);
    y = quantize(&g, y, output_scale(&g, (double)(k[0] * k[1])), seed & 1 ? PARE_U8 : PARE_I8,
                 (int)random_between(&g, 0, 100));
    build_output(&g.b, y);
    compare_with_reference(&g, none, "conv_depthwise_int8", seed);
}

static void test_depthwise(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_depthwise(seed);
        pare_reset(pool, m);
    }
}

/* ---- functions ------------------------------------------------------------------------------ */

static const char *add_function(struct rig *g, const char *x, int kind)
{
    const char *y;

    switch (kind) {
    case 0: return build_node(&g->b, "HardSwish", NAMES(x), NOTHING);
    case 1:
        y = build_node(&g->b, "Sigmoid", NAMES(x), NOTHING);
        return build_node(&g->b, "Mul", NAMES(x, y), NOTHING);
    case 2: /* GELU with QuantizeLinear and DequantizeLinear inside */
        y = build_node(&g->b, "Div", NAMES(x, build_scalar(&g->b, 1.4142135f)), NOTHING);
        y = build_node(&g->b, "Erf", NAMES(y), NOTHING);
        y = build_node(&g->b, "Add", NAMES(build_scalar(&g->b, 1), y), NOTHING);
        y = dequantize(g, quantize(g, y, 2.0f / 255, PARE_U8, 0), 2.0f / 255, PARE_U8, 0);
        y = build_node(&g->b, "Mul", NAMES(y, x), NOTHING);
        return build_node(&g->b, "Mul", NAMES(y, build_scalar(&g->b, 0.5f)), NOTHING);
    default: return build_node(&g->b, "Abs", NAMES(x), NOTHING);
    }
}

static void check_function(uint64_t seed)
{
    static const char *const none[] = { "", NULL };
    int t = seed & 1 ? PARE_U8 : PARE_I8, kind = (int)(seed / 2 % 4), how = (int)(seed / 8 % 3);
    int64_t dim[] = { 2, 0, 0, 0 };
    const char *x, *y, *kernel = "int8_map";
    struct rig g;

    rig_begin(&g, seed);
    dim[1] = random_between(&g, 1, 400);
    dim[2] = random_between(&g, 1, 9);
    dim[3] = random_between(&g, 1, 9);
    g.b.opset = 14;
    x = dequantized_input(&g, t, (int)random_between(&g, 0, 120), 4, dim);
    y = add_function(&g, x, kind);
    if (how == 1) {
        y = build_node(&g.b, "GlobalAveragePool", NAMES(y), NOTHING);
        kernel = "int8_pool";
    } else if (how == 2) {
        y = build_node(&g.b, "Transpose", NAMES(y), at_ints("perm", 4, (int64_t[]){ 0, 2, 3, 1 }));
    }
    build_output(&g.b, quantize(&g, y, g.x_scale, t, 20));
    compare_with_reference(&g, none, kernel, seed);
}

static void test_function_tables(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2 * TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_function(seed);
        pare_reset(pool, m);
    }
}

/* The consumer is Softmax, which reads float values. */
static void test_functions_with_float_consumers(void **state)
{
    static const char *const none[] = { "", NULL }, *const few[] = { "int8_cast", "int8_map",
                                                                     NULL };
    const int64_t dim[] = { 1, 19, 5, 7 };
    const char *x, *y;

    (void)state;
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < 2; i++) {
            struct rig g;

            rig_begin(&g, 5);
            g.b.opset = 14;
            x = dequantized_input(&g, PARE_U8, 77, 4, dim);
            y = add_function(&g, x, kind);
            y = build_node(&g.b, "Softmax", NAMES(y), at_int("axis", -1));
            build_output(&g.b, quantize(&g, y, 1.0f / 255, PARE_U8, 0));
            compare_with_reference(&g, i ? few : none, "softmax_rows", (uint64_t)kind);
        }
}

/* ---- chains ------------------------------------------------------------------------------- */

static const char *random_vector(struct rig *g, int64_t C, bool channels, float lo)
{
    int64_t dim[3] = { C, 1, 1 };
    float *v = pare_alloc(pool, (size_t)C, sizeof(*v));

    for (int64_t i = 0; i < C; i++)
        v[i] = lo + (float)pare_rng_uniform(&g->r);
    return build_floats(&g->b, channels ? 3 : 1, dim, v);
}

/* A gate per image and channel, a BatchNormalization, a sum with a scaled operand. */
static const char *add_chain(struct rig *g, int kind, const char *x, int64_t C)
{
    const char *y;

    switch (kind) {
    case 0:
        y = build_node(&g->b, "GlobalAveragePool", NAMES(x), NOTHING);
        y = dequantize(g, quantize(g, y, 0.0517f, PARE_U8, 90), 0.05f, PARE_U8, 90);
        y = build_node(&g->b, "Sigmoid", NAMES(y), NOTHING);
        return build_node(&g->b, "Mul", NAMES(y, add_function(g, x, 1)), NOTHING);
    case 1:
        y = build_node(&g->b, "BatchNormalization",
                       NAMES(x, random_vector(g, C, false, 0.5f), random_vector(g, C, false, -0.5f),
                             random_vector(g, C, false, -0.5f), random_vector(g, C, false, 0.5f)),
                       NOTHING);
        return build_node(&g->b, "Relu", NAMES(y), NOTHING);
    default:
        y = build_node(&g->b, "MaxPool", NAMES(x),
                       CAT(at_ints("kernel_shape", 2, (int64_t[]){ 3, 3 }),
                           at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 })));
        y = dequantize(g, quantize(g, y, 0.05f, PARE_U8, 90), 0.05f, PARE_U8, 90);
        y = build_node(&g->b, "Mul", NAMES(random_vector(g, C, true, -0.5f), y), NOTHING);
        return build_node(&g->b, "Add", NAMES(y, x), NOTHING);
    }
}

/* After a pool, so that channels are last. */
static void check_chain(uint64_t seed)
{
    static const char *const none[] = { "", NULL };
    int64_t C, H, W;
    const char *x, *y;
    struct rig g;

    rig_begin(&g, seed);
    g.b.opset = 14;
    C = random_between(&g, 1, 60) * (seed % 5 ? 1 : 50);
    H = random_between(&g, 1, 9);
    W = random_between(&g, 1, 9);
    x = dequantized_input(&g, PARE_U8, 100, 4, (int64_t[]){ 2, C, H, W });
    y = build_node(&g.b, "MaxPool", NAMES(x), at_ints("kernel_shape", 2, (int64_t[]){ 1, 1 }));
    y = dequantize(&g, quantize(&g, y, g.x_scale, PARE_U8, 100), 0.03f, PARE_U8, 100);
    y = add_chain(&g, (int)(seed % 3), y, C);
    build_output(&g.b, quantize(&g, y, 0.04f, PARE_U8, 99));
    compare_with_reference(&g, none, "int8_chain", seed);
}

static void test_chains(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_chain(seed);
        pare_reset(pool, m);
    }
}

/* ---- Concat and BatchNormalization ------------------------------------------------------- */

/* Operands of several scales and types after pools; the last of three is float32. */
static void check_norm(uint64_t seed)
{
    static const char *const none[] = { "", NULL };
    int64_t C, H, W, all;
    const char *x, *y, *part[3];
    int n = (int)(seed % 3) + 1;
    struct rig g;

    rig_begin(&g, seed);
    g.b.opset = 14;
    C = random_between(&g, 1, 70);
    H = random_between(&g, 1, 9);
    W = random_between(&g, 1, 9);
    all = C * n;
    x = dequantized_input(&g, PARE_U8, 100, 4, (int64_t[]){ 2, C, H, W });
    for (int i = 0; i < n; i++) {
        int type = (seed >> i) & 1 ? PARE_I8 : PARE_U8, zero = 20 * i - (type == PARE_I8 ? 9 : 0);
        float scale = g.x_scale * (1 + 0.3f * (float)i);

        zero += type == PARE_U8 ? 50 : 0;
        y = build_node(&g.b, i ? "AveragePool" : "MaxPool", NAMES(x),
                       at_ints("kernel_shape", 2, (int64_t[]){ 1, 1 }));
        part[i] = i == 2 ? y
                         : dequantize(&g, quantize(&g, y, scale, type, zero), scale, type, zero);
    }
    y = n == 1   ? build_node(&g.b, "Concat", NAMES(part[0]), at_int("axis", 1))
        : n == 2 ? build_node(&g.b, "Concat", NAMES(part[0], part[1]), at_int("axis", 1))
                 : build_node(&g.b, "Concat", NAMES(part[0], part[1], part[2]), at_int("axis", 1));
    y = build_node(&g.b, "BatchNormalization",
                   NAMES(y, random_vector(&g, all, false, 0.5f),
                         random_vector(&g, all, false, -0.5f), random_vector(&g, all, false, -0.5f),
                         random_vector(&g, all, false, 0.5f)),
                   NOTHING);
    if (seed & 8)
        y = build_node(&g.b, "Relu", NAMES(y), NOTHING);
    build_output(&g.b, quantize(&g, y, 0.04f, seed & 4 ? PARE_U8 : PARE_I8, 70));
    compare_with_reference(&g, none, n == 1 ? "" : "int8_norm", seed);
}

static void test_norm_after_concat(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_norm(seed);
        pare_reset(pool, m);
    }
}

/* ---- activations after products and after normalizations ---------------------------------- */

static bool runs_node_of(const struct pare_model *m, const char *op)
{
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_plan *p;
    struct pare_err err;
    bool found = false;

    if (pare_plan_make(m, &o, &p, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < p->n_steps; i++)
        found |= !strcmp(p->step[i]->node->op->type, op);
    pare_plan_free(p);
    return found;
}

static void check_fused(struct rig *g, const char *op, uint64_t seed)
{
    static const char *const none[] = { "", NULL };
    struct pare_model *m = build_model(&g->b);

    if (runs_node_of(m, op))
        fail_msg("seed %llu: %s has a step of its own", (unsigned long long)seed, op);
    pare_model_free(m);
    compare_with_reference(g, none, "", seed);
}

/* MatMul, Add, an activation, QuantizeLinear; some with few rows, some with many columns. */
static void check_mapped_product(uint64_t seed)
{
    static const char *const op[] = { "Gelu", "HardSwish", "Sigmoid" };
    int64_t M, K, N;
    const char *x, *w, *b = NULL, *y;
    int t = seed & 1 ? PARE_U8 : PARE_I8;
    struct rig g;

    rig_begin(&g, seed);
    g.b.opset = 20;
    M = random_between(&g, 1, seed % 3 ? 450 : 6);
    K = random_between(&g, 1, 70);
    N = random_between(&g, 1, seed % 5 ? 90 : 300);
    x = dequantized_input(&g, t, (int)random_between(&g, 0, 120), 2, (int64_t[]){ M, K });
    w = quantized_weights(&g, 2, (int64_t[]){ K, N }, 1, &b);
    y = build_node(&g.b, "MatMul", NAMES(x, w), NOTHING);
    if (b)
        y = build_node(&g.b, "Add", NAMES(y, b), NOTHING);
    y = build_node(&g.b, op[seed % 3], NAMES(y), NOTHING);
    if (seed & 2)
        y = build_node(&g.b, "Relu", NAMES(y), NOTHING);
    y = quantize(&g, y, output_scale(&g, (double)K), seed & 4 ? PARE_U8 : PARE_I8, 30);
    build_output(&g.b, y);
    check_fused(&g, op[seed % 3], seed);
}

static void check_quantized_norm(uint64_t seed)
{
    int64_t C, dim[3];
    const char *x, *y;
    struct rig g;

    rig_begin(&g, seed);
    g.b.opset = 17;
    C = random_between(&g, 2, 300);
    dim[0] = 2;
    dim[1] = random_between(&g, 1, 40);
    dim[2] = C;
    x = dequantized_input(&g, PARE_U8, 100, 3, dim);
    y = build_node(&g.b, "LayerNormalization",
                   NAMES(x, random_vector(&g, C, false, 0.5f), random_vector(&g, C, false, -0.5f)),
                   NOTHING);
    build_output(&g.b, quantize(&g, y, 0.03f, seed & 1 ? PARE_U8 : PARE_I8, 20));
    check_fused(&g, "QuantizeLinear", seed);
}

static void test_ends_before_quantization(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_mapped_product(seed);
        check_quantized_norm(seed);
        pare_reset(pool, m);
    }
}

/* ---- channel shuffle, slice and pools ---------------------------------------------------- */

static const char *channel_shuffle(struct rig *g, const char *x, const int64_t *d, int64_t a)
{
    const int64_t split[] = { d[0], a, d[1] / a, d[2], d[3] };
    const char *y = build_node(&g->b, "Reshape", NAMES(x, build_ints(&g->b, 5, split)), NOTHING);

    y = build_node(&g->b, "Transpose", NAMES(y), at_ints("perm", 5, (int64_t[]){ 0, 2, 1, 3, 4 }));
    return build_node(&g->b, "Reshape", NAMES(y, build_ints(&g->b, 4, d)), NOTHING);
}

static const char *channel_slice(struct rig *g, const char *x, int64_t from, int64_t to,
                                 int64_t step)
{
    return build_node(&g->b, "Slice",
                      NAMES(x, build_ints(&g->b, 1, &from), build_ints(&g->b, 1, &to),
                            build_ints(&g->b, 1, (int64_t[]){ 1 }), build_ints(&g->b, 1, &step)),
                      NOTHING);
}

/* Channel shuffle, slice, MaxPool or padded mean of a DequantizeLinear that may have more
 * consumers. */
static void check_movement(uint64_t seed)
{
    static const char *const none[] = { "", NULL };
    static const char *const kernel[] = { "int8_channels", "int8_channels", "int8_pool",
                                          "int8_pool" };
    int kind = (int)(seed % 4), t = seed & 4 ? PARE_U8 : PARE_I8;
    int64_t d[4], a;
    const char *x, *y;
    struct rig g;

    rig_begin(&g, seed);
    g.b.opset = 14;
    a = random_between(&g, 2, 4); /* of 1, the shuffle moves nothing */
    d[0] = random_between(&g, 1, 2);
    d[1] = a * random_between(&g, 2, 90);
    d[2] = random_between(&g, 2, 9);
    d[3] = random_between(&g, 2, 9);
    x = dequantized_input(&g, t, (int)random_between(&g, 0, 90), 4, d);
    x = build_node(&g.b, "MaxPool", NAMES(x), at_ints("kernel_shape", 2, (int64_t[]){ 1, 1 }));
    x = dequantize(&g, quantize(&g, x, g.x_scale, t, 33), 0.03f, t, 33);
    if (kind == 0) {
        y = channel_shuffle(&g, x, d, a);
        if (random_between(&g, 0, 1))
            y = build_node(&g.b, "Add", NAMES(y, x), NOTHING);
    } else if (kind == 1) {
        y = channel_slice(&g, x, random_between(&g, 1, d[1] - 1), d[1], random_between(&g, 1, 2));
    } else if (kind == 2) {
        y = build_node(&g.b, "MaxPool", NAMES(x),
                       CAT(at_ints("kernel_shape", 2, (int64_t[]){ 2, 2 }),
                           at_ints("strides", 2, (int64_t[]){ random_between(&g, 1, 2), 1 })));
    } else {
        y = build_node(&g.b, "Pad",
                       NAMES(x, build_ints(&g.b, 8, (int64_t[]){ 0, 0, 1, 1, 0, 0, 1, 0 })),
                       NOTHING);
        y = build_node(&g.b, "AveragePool", NAMES(y),
                       at_ints("kernel_shape", 2, (int64_t[]){ 3, 2 }));
    }
    build_output(&g.b, quantize(&g, y, 0.0417f, t, 5));
    compare_with_reference(&g, none, kernel[kind], seed);
}

static void test_channel_movement(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pare_mark m = pare_mark(pool);

        check_movement(seed);
        pare_reset(pool, m);
    }
}

/* ---- tables ------------------------------------------------------------------------------- */

static void test_table_lookup(void **state)
{
    struct pare_int8_table *t = pare_alloc(pool, 1, sizeof(*t));
    uint8_t bytes[256], x[700], y[700 + 64];
    float real[700];
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)pare_rng_next(&r);
        t->f32[i] = (float)pare_rng_normal(&r);
    }
    pare_int8_table_set(t);
    for (int n = 0; n <= 700; n += n < 140 ? 1 : 35) {
        for (int i = 0; i < n; i++)
            x[i] = (uint8_t)pare_rng_next(&r);
        memset(y, 7, sizeof(y));
        pare_int8_bytes(bytes, x, y, n);
        pare_int8_floats(t, x, real, n);
        for (int i = 0; i < n; i++) {
            assert_int_equal(y[i], bytes[x[i]]);
            assert_true(real[i] == t->f32[x[i]]);
        }
        for (int i = 0; i < 64; i++)
            assert_int_equal(y[n + i], 7);
    }
}

static int find_vnni(void **state)
{
    struct rig g;
    struct pare_model *m;
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_plan *p;
    struct pare_err err;

    make_pool(state);
    rig_begin(&g, 1);
    build_output(&g.b, dequantized_input(&g, PARE_U8, 0, 1, (int64_t[]){ 1 }));
    m = build_model(&g.b);
    if (pare_plan_make(m, &o, &p, &err))
        return -1;
    has_avx2 = pare_has_isa(PARE_ISA_AVX2);
    has_vnni = p->backend.vnni && p->backend.block == 16;
    pare_plan_free(p);
    pare_model_free(m);
    drop_pool(state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_winograd, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_depthwise, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_function_tables, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_functions_with_float_consumers, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_chains, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_norm_after_concat, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_ends_before_quantization, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_channel_movement, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_table_lookup, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, find_vnni, NULL);
}
