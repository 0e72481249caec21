/* test_qlinear.c - QLinear operators of com.microsoft, against float64 results. */
#include "make_model.h"

#include <math.h>

#include "base/rng.h"
#include "plan/plan.h"

enum { N = 2, C = 37, H = 6, W = 8, HALVES = 1000 };

struct operand {
    struct pare_tensor t;
    const char *name, *scale_name, *zero_name;
    float scale;
    int zero;
};

struct rig {
    struct build b;
    struct pare_rng r;
    int dtype;
    struct operand x[2], y; /* y has no tensor */
};

static int64_t random_between(struct rig *g, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pare_rng_below(&g->r, (uint64_t)(hi - lo + 1));
}

static int lowest(const struct rig *g)
{
    return g->dtype == PARE_I8 ? -128 : 0;
}

static void set_scale(struct rig *g, struct operand *o, double scale)
{
    uint8_t byte;

    o->scale = (float)(scale * (0.5 + pare_rng_uniform(&g->r)));
    o->zero = (int)random_between(g, lowest(g), lowest(g) + 255);
    byte = (uint8_t)o->zero;
    o->scale_name = build_scalar(&g->b, o->scale);
    o->zero_name = build_const(&g->b, g->dtype, 0, NULL, &byte);
}

static void add_input(struct rig *g, struct operand *o, int rank, const int64_t *dim)
{
    o->name = build_input(&g->b, g->dtype, rank, dim);
    o->t = build_tensor(g->dtype, rank, dim);
    for (int64_t i = 0; i < pare_numel(&o->t); i++)
        ((uint8_t *)o->t.data)[i] = (uint8_t)pare_rng_next(&g->r);
    set_scale(g, o, 0.02);
}

static double dequantized(const struct operand *o, int64_t i)
{
    return ((double)pare_get_int(&o->t, i) - o->zero) * (double)o->scale;
}

static void rig_begin(struct rig *g, uint64_t seed, double y_scale)
{
    const int64_t dim[] = { N, C, H, W };

    memset(g, 0, sizeof(*g));
    g->b.opset = 13;
    pare_rng_init(&g->r, seed);
    g->dtype = seed & 1 ? PARE_U8 : PARE_I8;
    add_input(g, &g->x[0], 4, dim);
    add_input(g, &g->x[1], 4, dim);
    set_scale(g, &g->y, y_scale);
}

static const char *ms_node(struct rig *g, const char *type, int n, const char *const *in,
                           struct bin attrs)
{
    return build_node(&g->b, type, n, in, CAT(text(7, "com.microsoft"), attrs));
}

/* ---- comparing ------------------------------------------------------------------------------ */

typedef double want_fn(const struct rig *g, int64_t i);

static int64_t near_halves;

static void expect_quantized(const struct rig *g, const struct pare_tensor *y, want_fn *want,
                             const char *what)
{
    int lo = lowest(g), hi = lo + 255;

    for (int64_t i = 0; i < pare_numel(y); i++) {
        double v = want(g, i) / (double)g->y.scale, q = rint(v) + g->y.zero;
        double got = pare_get(y, i), half = fabs(v - floor(v) - 0.5);

        q = q < lo ? lo : q > hi ? hi : q;
        near_halves += got != q;
        if (got != q && (half > 1.0 / HALVES || fabs(got - q) > 1))
            fail_msg("%s: element %lld is %g, expected %g (%.6f)", what, (long long)i, got, q, v);
    }
}

/* Checks the reference kernel, and the fast kernel on 1 and 2 threads; kernel NULL: none. */
static void check_kernels(struct rig *g, const char *out, int n_in, want_fn *want,
                          const char *kernel)
{
    struct pare_tensor in[2] = { g->x[0].t, g->x[1].t }, y;
    struct bin bytes;
    struct pare_model *m;
    struct pare_err err;

    build_output(&g->b, out);
    bytes = CAT(build_bytes(&g->b), opset("com.microsoft", 1));
    if (pare_model_parse(bytes.p, bytes.n, NULL, &m, &err))
        fail_msg("%s", err.msg);
    for (int threads = 0; threads <= 2; threads++) {
        struct pare_plan_opts o = { .reference = !threads, .threads = threads };
        bool runs = false;
        struct pare_plan *p;

        (void)n_in;
        if (pare_plan_make(m, &o, &p, &err) || pare_plan_execute(p, in, &y, &err))
            fail_msg("%s", err.msg);
        for (int i = 0; i < p->n_steps; i++)
            runs |= kernel && !strcmp(p->step[i]->kernel->name, kernel);
        assert_true(runs == (threads && kernel));
        expect_quantized(g, &y, want, kernel ? kernel : "reference");
        pare_plan_free(p);
    }
    pare_model_free(m);
}

/* ---- operators ------------------------------------------------------------------------------ */

static double want_sum(const struct rig *g, int64_t i)
{
    return dequantized(&g->x[0], i) + dequantized(&g->x[1], i);
}

static double want_product(const struct rig *g, int64_t i)
{
    return dequantized(&g->x[0], i) * dequantized(&g->x[1], i);
}

static void check_binary(const char *type, double y_scale, want_fn *want, const char *kernel)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct pare_mark m = pare_mark(pool);
        struct rig g;

        rig_begin(&g, seed, y_scale);
        check_kernels(&g,
                      ms_node(&g, type,
                              NAMES(g.x[0].name, g.x[0].scale_name, g.x[0].zero_name, g.x[1].name,
                                    g.x[1].scale_name, g.x[1].zero_name, g.y.scale_name,
                                    g.y.zero_name),
                              NOTHING),
                      2, want, kernel);
        pare_reset(pool, m);
    }
}

static void test_add_and_mul(void **state)
{
    (void)state;
    check_binary("QLinearAdd", 0.03, want_sum, "int8_add");
    check_binary("QLinearMul", 0.05, want_product, NULL);
}

static double want_sigmoid(const struct rig *g, int64_t i)
{
    return 1 / (1 + exp(-dequantized(&g->x[0], i)));
}

static double want_mean(const struct rig *g, int64_t i)
{
    double sum = 0;

    for (int64_t k = 0; k < H * W; k++)
        sum += dequantized(&g->x[0], i * H * W + k);
    return sum / (H * W);
}

/* Windows of 2 x 2 with a stride of 2. */
static double want_window(const struct rig *g, int64_t i)
{
    int64_t plane = i / (H / 2 * W / 2), h = i / (W / 2) % (H / 2) * 2, w = i % (W / 2) * 2;
    int64_t at = (plane * H + h) * W + w;

    return (dequantized(&g->x[0], at) + dequantized(&g->x[0], at + 1) +
            dequantized(&g->x[0], at + W) + dequantized(&g->x[0], at + W + 1)) /
           4;
}

static void check_unary(const char *type, struct bin attrs, double y_scale, want_fn *want,
                        const char *kernel)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct pare_mark m = pare_mark(pool);
        struct rig g;

        rig_begin(&g, seed, y_scale);
        check_kernels(&g,
                      ms_node(&g, type,
                              NAMES(g.x[0].name, g.x[0].scale_name, g.x[0].zero_name,
                                    g.y.scale_name, g.y.zero_name),
                              attrs),
                      2, want, kernel);
        pare_reset(pool, m);
    }
}

static void test_unary_operators(void **state)
{
    const int64_t two[] = { 2, 2 };

    (void)state;
    check_unary("QLinearSigmoid", NOTHING, 1 / 256.0, want_sigmoid, NULL);
    check_unary("QLinearGlobalAveragePool", NOTHING, 0.003, want_mean, "int8_pool");
    check_unary("QLinearAveragePool",
                CAT(at_ints("kernel_shape", 2, two), at_ints("strides", 2, two)), 0.011,
                want_window, "int8_pool");
}

static double want_joined(const struct rig *g, int64_t i)
{
    int64_t plane = i / (H * W), image = plane / (2 * C), c = plane % (2 * C);

    return dequantized(&g->x[c >= C], ((image * C + c % C) * H * W) + i % (H * W));
}

static void test_concat(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct rig g;

        rig_begin(&g, seed, 0.02);
        check_kernels(&g,
                      ms_node(&g, "QLinearConcat",
                              NAMES(g.y.scale_name, g.y.zero_name, g.x[0].name, g.x[0].scale_name,
                                    g.x[0].zero_name, g.x[1].name, g.x[1].scale_name,
                                    g.x[1].zero_name),
                              at_int("axis", seed & 2 ? 1 : -3)),
                      2, want_joined, "int8_concat");
    }
}

/* ---- QGemm --------------------------------------------------------------------------------- */

enum { M = 9, K = 70, COLUMNS = 21 };

static struct {
    int8_t w[K * COLUMNS];
    float scale[COLUMNS];
    int32_t bias[COLUMNS];
    bool transposed, biased, one_scale;
} gemm;

static double want_gemm(const struct rig *g, int64_t i)
{
    int64_t row = i / COLUMNS, c = i % COLUMNS;
    double sum = gemm.biased ? gemm.bias[c] : 0;

    for (int64_t k = 0; k < K; k++)
        sum += (double)(pare_get_int(&g->x[0].t, row * K + k) - g->x[0].zero) *
               gemm.w[gemm.transposed ? c * K + k : k * COLUMNS + c];
    return sum * (double)g->x[0].scale * (double)gemm.scale[gemm.one_scale ? 0 : c];
}

static const char *add_gemm(struct rig *g)
{
    const int64_t dim[] = { M, K }, columns[] = { COLUMNS };
    int64_t wdim[] = { gemm.transposed ? COLUMNS : K, gemm.transposed ? K : COLUMNS };
    const int8_t zero[COLUMNS] = { 0 };
    const char *in[9];

    for (int i = 0; i < K * COLUMNS; i++)
        gemm.w[i] = (int8_t)random_between(g, -128, 127);
    for (int i = 0; i < COLUMNS; i++) {
        gemm.scale[i] = (float)(0.001 + 0.01 * pare_rng_uniform(&g->r));
        gemm.bias[i] = (int32_t)random_between(g, -30000, 30000);
    }
    add_input(g, &g->x[0], 2, dim);
    in[0] = g->x[0].name;
    in[1] = g->x[0].scale_name;
    in[2] = g->x[0].zero_name;
    in[3] = build_const(&g->b, PARE_I8, 2, wdim, gemm.w);
    in[4] = build_floats(&g->b, !gemm.one_scale, columns, gemm.scale);
    in[5] = build_const(&g->b, PARE_I8, !gemm.one_scale, columns, zero);
    in[6] = gemm.biased ? build_const(&g->b, PARE_I32, 1, columns, gemm.bias) : "";
    in[7] = g->y.scale_name;
    in[8] = g->y.zero_name;
    return ms_node(g, "QGemm", 9, in, at_int("transB", gemm.transposed));
}

static void test_gemm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct pare_mark m = pare_mark(pool);
        struct rig g = { .b = { .opset = 13 }, .dtype = seed & 1 ? PARE_U8 : PARE_I8 };

        pare_rng_init(&g.r, seed);
        gemm.transposed = seed & 2;
        gemm.biased = seed & 4;
        gemm.one_scale = seed & 8;
        set_scale(&g, &g.y, 1);
        check_kernels(&g, add_gemm(&g), 1, want_gemm, "linear_int8");
        pare_reset(pool, m);
    }
}

/* ---- malformed models -------------------------------------------------------------------- */

static void test_malformed_scale(void **state)
{
    const int64_t two[] = { 2 };
    struct pare_model *m;
    struct pare_plan *p = NULL;
    struct pare_err err;
    struct bin bytes;
    struct rig g;
    int rc;

    (void)state;
    rig_begin(&g, 1, 0.02);
    build_output(&g.b, ms_node(&g, "QLinearAdd",
                               NAMES(g.x[0].name, build_floats(&g.b, 1, two, (float[]){ 1, 2 }),
                                     g.x[0].zero_name, g.x[1].name, g.x[1].scale_name,
                                     g.x[1].zero_name, g.y.scale_name, g.y.zero_name),
                               NOTHING));
    bytes = CAT(build_bytes(&g.b), opset("com.microsoft", 1));
    if (pare_model_parse(bytes.p, bytes.n, NULL, &m, &err))
        fail_msg("%s", err.msg);
    rc = pare_plan_make(m, &(struct pare_plan_opts){ 0 }, &p, &err);
    assert_int_equal(rc, PARE_ESHAPE);
    assert_non_null(strstr(err.msg, "has 2 elements, must have one"));
    pare_plan_free(p);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_add_and_mul, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_unary_operators, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_concat, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_gemm, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_malformed_scale, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
