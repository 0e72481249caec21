/* test_winograd_again.c - Winograd convolutions whose filters are transformed in each run, because
 * the model's weights do not fit in the caches. */
#include "make_model.h"

#include <math.h>

#include "backend/conv/winograd.h"
#include "base/cpu_cache.h"
#include "base/rng.h"
#include "plan/plan.h"

enum { C = 20, O = 24, SIDE = 34 };

static const char *random_floats(struct build *b, struct pare_rng *r, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)(0.1 + pare_rng_uniform(r));
    return build_floats(b, rank, dim, t.data);
}

/* Conv 3x3, BatchNormalization, Relu, and a product with `columns` columns of weights. */
static struct pare_model *make_network(int64_t columns)
{
    int64_t o = O, rows = O * SIDE * SIDE, all = rows * columns;
    float *big = pare_alloc(pool, (size_t)all, sizeof(*big));
    struct build b = { .opset = 13 };
    const char *norm[5], *x, *y;
    struct pare_rng r;

    pare_rng_init(&r, 3);
    x = build_input(&b, PARE_F32, 4, (int64_t[]){ 1, C, SIDE, SIDE });
    y = build_node(&b, "Conv", NAMES(x, random_floats(&b, &r, 4, (int64_t[]){ O, C, 3, 3 })),
                   at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 }));
    norm[0] = y;
    for (int i = 1; i < 5; i++)
        norm[i] = random_floats(&b, &r, 1, &o);
    y = build_node(&b, "BatchNormalization", 5, norm, NOTHING);
    y = build_node(&b, "Relu", NAMES(y), NOTHING);
    y = build_node(&b, "Flatten", NAMES(y), NOTHING);
    for (int64_t i = 0; i < all; i++)
        big[i] = i % 7 ? 0 : (float)(i % 11) * 1e-4f;
    y = build_node(&b, "MatMul", NAMES(y, build_floats(&b, 2, (int64_t[]){ rows, columns }, big)),
                   NOTHING);
    build_output(&b, y);
    return build_model(&b);
}

/* The scratch memory of the convolution. */
static size_t run_network(const struct pare_model *m, const char *kernel, int threads,
                          struct pare_tensor *copy)
{
    struct pare_plan_opts o = { .reference = !kernel, .threads = threads };
    struct pare_tensor x = build_tensor(PARE_F32, 4, (int64_t[]){ 1, C, SIDE, SIDE }), out;
    size_t bytes = 0;
    struct pare_plan *p;
    struct pare_err err;

    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)(i % 13) / 13 - 0.5f;
    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; kernel && i < p->n_steps; i++)
        if (!strcmp(p->step[i]->kernel->name, kernel))
            bytes = p->step[i]->work_bytes[0];
    for (int i = 0; i < 2; i++) /* the second run finds scratch memory in use */
        if (pare_plan_execute(p, &x, &out, &err))
            fail_msg("%s", err.msg);
    *copy = build_copy(&out);
    pare_plan_free(p);
    return bytes;
}

static void expect_equal(const struct pare_tensor *a, const struct pare_tensor *b)
{
    double most = 0;

    for (int64_t i = 0; i < pare_numel(a); i++)
        most = fmax(most, fabs(pare_get(a, i)));
    for (int64_t i = 0; i < pare_numel(a); i++)
        if (!(fabs(pare_get(a, i) - pare_get(b, i)) <= 1e-5 * most))
            fail_msg("element %lld is %g, expected %g", (long long)i, pare_get(b, i),
                     pare_get(a, i));
}

static void test_filters_of_large_models_are_transformed_in_each_run(void **state)
{
    int64_t row = (int64_t)O * SIDE * SIDE * (int64_t)sizeof(float);
    int64_t columns = (int64_t)pare_cache_bytes() / 4 / row + 1;
    struct pare_model *small = make_network(2), *large = make_network(columns);

    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        struct pare_tensor want, got;
        size_t kept, again;

        kept = run_network(small, "conv_winograd", threads, &got);
        run_network(large, NULL, threads, &want);
        again = run_network(large, "conv_winograd", threads, &got);
        if (!kept)
            skip(); /* vectors of this machine are too short for the kernel */
        assert_true(again > kept);
        expect_equal(&want, &got);
    }
    pare_model_free(small);
    pare_model_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_filters_of_large_models_are_transformed_in_each_run,
                                        make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
