/* test_threads.c - kernels on enough data for several threads, which must not change the result.
 *
 * Kernels use one thread for little work, as in most tests.  Here are the kernels that no network
 * of `make tsan` runs; tools/tsan.sh --seen lists the ones that it runs.
 */
#include "int8_rig.h"

#include <pare/plugin.h>

#include "prune/rank.h"

enum { MANY = 4 };

/* Expects the same bytes with one thread and with many, and a step of this kernel (NULL: any). */
static void check_threads(struct build *b, const struct pare_tensor *x, const char *kernel)
{
    struct pare_model *m = build_model(b);
    struct pare_tensor out, got[2];
    struct pare_plan *p;
    struct pare_err err;

    for (int i = 0; i < 2; i++) {
        struct pare_plan_opts o = { .threads = i ? MANY : 1 };

        if (pare_plan_make(m, &o, &p, &err))
            fail_msg("%s", err.msg);
        if (kernel && !has_kernel(p, kernel))
            fail_msg("the plan does not use %s", kernel);
        if (pare_plan_execute(p, x, &out, &err))
            fail_msg("%s", err.msg);
        got[i] = build_copy(&out);
        pare_plan_free(p);
    }
    assert_memory_equal(got[0].data, got[1].data,
                        (size_t)pare_numel(&got[0]) * pare_dtype_size(got[0].dtype));
    pare_model_free(m);
}

/* ---- integers ------------------------------------------------------------------------- */

static void test_int8_kernels(void **state)
{
    static const char *const kernel[] = { "int8_add", "int8_concat", "int8_channels" };
    static const int64_t three[] = { 3, 3 }, ones[] = { 1, 1, 1, 1 };

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct pare_mark m = pare_mark(pool);
        const char *x, *pooled, *half, *y;
        struct rig g;

        rig_begin(&g, 11);
        x = dequantized_input(&g, PARE_U8, 7, 4, (int64_t[]){ 1, 64, 48, 48 });
        pooled = build_node(&g.b, "MaxPool", NAMES(x), /* its result has channels last */
                            CAT(at_ints("kernel_shape", 2, three), at_ints("pads", 4, ones)));
        half = build_node(&g.b, "Mul", NAMES(pooled, build_scalar(&g.b, 0.5f)), NOTHING);
        half = dequantize(&g, quantize(&g, half, 0.02f, PARE_U8, 5), 0.02f, PARE_U8, 5);
        if (kind == 0)
            y = build_node(&g.b, "Add", NAMES(x, half), NOTHING);
        else if (kind == 1)
            y = build_node(&g.b, "Concat", NAMES(x, half), at_int("axis", 1));
        else
            y = build_node(&g.b, "Slice",
                           NAMES(pooled, build_ints(&g.b, INTS(8)), build_ints(&g.b, INTS(56)),
                                 build_ints(&g.b, INTS(1))),
                           NOTHING);
        y = quantize(&g, y, kind ? g.x_scale : 0.07f, PARE_U8, 7);
        build_output(&g.b, y);
        check_threads(&g.b, &g.x, kernel[kind]);
        pare_reset(pool, m);
    }
}

/* ---- float32 ---------------------------------------------------------------------------- */

static struct pare_tensor random_tensor(int rank, const int64_t *dim, uint64_t seed)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng r;

    pare_rng_init(&r, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)pare_rng_uniform(&r) - 0.5f;
    return t;
}

static void test_transposes(void **state)
{
    static const int64_t dim[] = { 1, 48, 40, 32 }, last[] = { 0, 2, 3, 1 },
                         swap[] = { 0, 1, 3, 2 };

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct pare_tensor x = random_tensor(4, dim, 5);
        struct build b = { .opset = 17 };
        const char *y = build_input(&b, PARE_F32, 4, dim);

        if (kind) /* in the blocked layout */
            y = build_node(&b, "MaxPool", NAMES(y),
                           at_ints("kernel_shape", 2, (int64_t[]){ 2, 2 }));
        y = build_node(&b, "Transpose", NAMES(y), at_ints("perm", 4, kind ? last : swap));
        build_output(&b, y);
        check_threads(&b, &x, "transpose_tiles");
    }
}

/* Convolutions by oneDNN, whose result is cut into images, channels or rows. */
static void test_cut_convolutions(void **state)
{
    static const struct {
        int64_t N, C, O, group, k, stride, size;
    } cases[] = {
        { 1, 256, 64, 1, 3, 2, 29 }, /* channels */
        { 8, 256, 48, 1, 3, 2, 15 }, /* images */
        { 1, 256, 16, 1, 5, 2, 29 }, /* one block of channels: not cut */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const int64_t in[] = { cases[i].N, cases[i].C, cases[i].size, cases[i].size };
        const int64_t k = cases[i].k, filters[] = { cases[i].O, cases[i].C / cases[i].group, k, k };
        struct pare_tensor x = random_tensor(4, in, 8), w = random_tensor(4, filters, 9);
        struct build b = { .opset = 17 };
        const char *y = build_input(&b, PARE_F32, 4, in);

        y = build_node(&b, "Conv", NAMES(y, build_floats(&b, 4, filters, w.data)),
                       CAT(at_ints("strides", 2, (int64_t[]){ cases[i].stride, cases[i].stride }),
                           at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 }),
                           at_int("group", cases[i].group)));
        build_output(&b, build_node(&b, "Relu", NAMES(y), NOTHING));
        check_threads(&b, &x,
                      cases[i].N > 1    ? NULL /* the plan may run micro-batches */
                      : pare_has_onednn ? "conv_onednn"
                                        : "conv_gemm");
    }
}

static void test_cut_int8_convolutions(void **state)
{
    static const int64_t cases[][4] = {
        /* batch, filter, stride, size */
        { 1, 3, 2, 57 }, /* rows */
        { 1, 1, 1, 29 }, /* rows of one element */
        { 8, 5, 2, 31 }, /* images */
        { 1, 7, 2, 12 }, /* few rows: not cut */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const int64_t *c = cases[i], pad = c[1] / 2, in[] = { c[0], 32, c[3], c[3] };
        struct pare_mark m = pare_mark(pool);
        const char *x, *w, *y;
        struct rig g;

        rig_begin(&g, 12);
        x = dequantized_input(&g, PARE_U8, 7, 4, in);
        w = quantized_weights(&g, 4, (int64_t[]){ 48, 32, c[1], c[1] }, 0, NULL);
        y = build_node(&g.b, "Conv", NAMES(x, w),
                       CAT(at_ints("strides", 2, (int64_t[]){ c[2], c[2] }),
                           at_ints("pads", 4, (int64_t[]){ pad, pad, pad, pad })));
        build_output(&g.b, quantize(&g, y, 0.5f, PARE_U8, 5));
        check_threads(&g.b, &g.x, NULL);
        pare_reset(pool, m);
    }
}

/* A batch of products. */
static void test_batched_matmul(void **state)
{
    static const int64_t dim[] = { 8, 48, 48 };
    struct pare_tensor x = random_tensor(3, dim, 4);
    struct build b = { .opset = 17 };
    const char *y = build_input(&b, PARE_F32, 3, dim);

    (void)state;
    y = build_node(&b, "MatMul", NAMES(y, y), NOTHING);
    build_output(&b, y);
    check_threads(&b, &x, "matmul_gemm");
}

/* One row and weights that are mostly 0. */
static void test_sparse_row(void **state)
{
    static const int64_t N = 1024, K = 1024;
    struct pare_tensor x = random_tensor(2, (int64_t[]){ 1, K }, 6),
                       w = random_tensor(2, (int64_t[]){ K, N }, 7);
    struct build b = { .opset = 17 };
    const char *y = build_input(&b, PARE_F32, 2, x.dim);

    (void)state;
    for (int64_t i = 0; i < K * N; i++)
        if (i / N % 16 || i % N / 8 % 2) /* blocks of 8 outputs are not 0 */
            pare_f32_mut(&w)[i] = 0;
    y = build_node(&b, "MatMul", NAMES(y, build_floats(&b, 2, w.dim, w.data)), NOTHING);
    build_output(&b, y);
    check_threads(&b, &x, "linear_sparse");
}

/* ---- compression ------------------------------------------------------------------------- */

/* Tiles of a matrix, each ranked separately. */
static void test_balanced_ranking(void **state)
{
    static const int64_t dim[] = { 512, 512 };
    struct pare_tensor w = random_tensor(2, dim, 8);
    int64_t tile[] = { 16, 16 }, n = pare_numel(&w);
    struct pare_ints gran = { tile, 2 };
    uint8_t *masks[2];
    struct pare_err err = { 0 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_grain each = { .name = "element", .out_axis = 0, .in_axis = 1 };
        struct pare_units u;
        struct pare_ranked l = { .units = &u, .weight = &w, .sparsity = 0.3, .max_sparsity = 1 };

        if (pare_units_make(&w, &each, &u, &err))
            fail_msg("%s", err.msg);
        masks[i] = l.keep = pare_alloc(pool, (size_t)n, 1);
        memset(l.keep, 1, (size_t)n);
        if (pare_rank_balance(&l, &gran, i ? MANY : 1, pool, &err))
            fail_msg("%s", err.msg);
    }
    assert_memory_equal(masks[0], masks[1], (size_t)n);
    assert_int_equal(memchr(masks[0], 0, (size_t)n) != NULL, 1);
}

/* Scales along the last axis: adjacent elements have different scales. */
static void test_quantization_along_the_last_axis(void **state)
{
    static const int64_t dim[] = { 512, 256 };
    struct pare_tensor x = random_tensor(2, dim, 9), y[2];
    float *scale = pare_alloc(pool, 256, sizeof(*scale)), *zero = pare_alloc(pool, 256, 4);

    (void)state;
    for (int i = 0; i < 256; i++)
        scale[i] = 0.001f * (float)(i + 1);
    for (int i = 0; i < 2; i++) {
        struct pare_quant q = { .bits = 8, .qmin = -128, .qmax = 127, .axis = 1 };

        q.threads = i ? MANY : 1;
        y[i] = build_copy(&x);
        pare_quant_apply(&q, &x, scale, zero, &y[i]);
    }
    assert_memory_equal(y[0].data, y[1].data, (size_t)pare_numel(&x) * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_int8_kernels, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_transposes, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_cut_convolutions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_cut_int8_convolutions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_batched_matmul, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_sparse_row, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_balanced_ranking, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_quantization_along_the_last_axis, make_pool,
                                        drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
