/* test_linear_packed.c - Gemm and MatMul by packed GEMM against the reference kernels: columns that
 * do not fill blocks, chains after the product, threads.
 */
#include "make_model.h"

#include "base/rng.h"
#include "tensor/compare.h"

static struct pare_rng rng;

static int64_t below(int64_t n)
{
    return (int64_t)pare_rng_below(&rng, (uint64_t)n);
}

static const float *random_floats(int64_t n)
{
    float *v = pare_alloc(pool, (size_t)n, sizeof(*v));

    for (int64_t i = 0; i < n; i++)
        v[i] = (float)pare_rng_uniform(&rng) * 2 - 1;
    return v;
}

/* A product with N columns; chain: number of operators after it. */
struct product {
    int64_t M, K, N;
    bool gemm, transposed, bias;
    int chain, threads;
};

static struct pare_model *make_product(const struct product *p)
{
    static const char *const activations[] = { "Relu", "Sigmoid", "Tanh" };
    struct build b = { .opset = 17 };
    const int64_t w[2] = { p->transposed ? p->N : p->K, p->transposed ? p->K : p->N };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ p->M, p->K });
    const char *weight = build_floats(&b, 2, w, random_floats(p->N * p->K));
    const char *bias = build_floats(&b, 1, &p->N, random_floats(p->N)), *y;

    if (p->gemm)
        y = build_node(&b, "Gemm", p->bias ? 3 : 2, (const char *[]){ x, weight, bias },
                       at_int("transB", p->transposed));
    else
        y = build_node(&b, "MatMul", NAMES(x, weight), NOTHING);
    if (p->bias && !p->gemm)
        y = build_node(&b, "Add", NAMES(y, bias), NOTHING);
    if (p->chain > 0)
        y = build_node(&b, activations[below(3)], NAMES(y), NOTHING);
    if (p->chain > 1)
        y = build_node(&b, "Mul", NAMES(y, build_floats(&b, 1, &p->N, random_floats(p->N))),
                       NOTHING);
    build_output(&b, y);
    return build_model(&b);
}

static void compare(const struct product *p)
{
    static const char *const without[] = { "linear_onednn", "linear_gemm", "linear_sparse",
                                           "elementwise_chain", NULL };
    const struct pare_tolerance tol = { 1e-5, 1e-4 };
    struct pare_tensor x = build_tensor(PARE_F32, 2, (int64_t[]){ p->M, p->K }), y, want = { 0 };
    struct pare_model *m = make_product(p);
    struct pare_err err;

    memcpy(x.data, random_floats(p->M * p->K), (size_t)(p->M * p->K) * sizeof(float));
    for (int fast = 0; fast < 2; fast++) {
        const struct pare_plan_opts o = { .in = &x,
                                          .n_in = 1,
                                          .threads = p->threads,
                                          .reference = !fast };
        const struct pare_plan_build build = { .opts = &o, .without = fast ? without : NULL };
        struct pare_plan *plan;

        assert_int_equal(pare_plan_build(m, &build, &plan, &err), 0);
        if (fast)
            assert_string_equal(plan->step[0]->kernel->name, "linear_packed");
        assert_int_equal(pare_plan_execute(plan, &x, &y, &err), 0);
        if (!fast)
            want = build_copy(&y);
        else if (pare_tensor_compare(&y, &want, tol, &err))
            fail_msg("(%d, %d) times %d columns, chain %d, %d threads: %s", (int)p->M, (int)p->K,
                     (int)p->N, p->chain, p->threads, err.msg);
        pare_plan_free(plan);
    }
    pare_model_free(m);
}

static void test_random_products_equal_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct product p = { .M = 1 + below(30),
                             .K = 1 + below(60),
                             .N = 16 + below(80),
                             .gemm = below(2),
                             .bias = below(2),
                             .chain = (int)below(3),
                             .threads = 1 + (int)below(4) };

        p.transposed = p.gemm && below(2);
        compare(&p);
    }
}

/* Weights beyond the cache: each thread owns columns. */
static void test_large_weights_equal_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        const struct product p = { .M = 1 + 6 * (i & 1),
                                   .K = 300,
                                   .N = 603 + 16 * i,
                                   .gemm = true,
                                   .transposed = i > 2,
                                   .bias = true,
                                   .chain = 2,
                                   .threads = 1 + i % 3 };

        compare(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_products_equal_reference, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_large_weights_equal_reference, make_pool, drop_pool),
    };

    pare_rng_init(&rng, 31);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
