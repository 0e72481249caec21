/* test_post_ops.c - post-ops after products, for each instruction set, against libm in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

/* Include the file itself, since each machine chooses only one of its variants. */
#define pare_post_ops_run run_included
#include "backend/rows/post_ops_apply.c"
#undef pare_post_ops_run

#include "base/rng.h"

enum { ROWS = 3, COUNT = 32, STEP = 48 };

static double reference(const struct pare_post_op *p, double x, double sum)
{
    switch (p->kind) {
    case PARE_POST_SUM: return x + sum;
    case PARE_POST_RELU: return x < 0 ? (p->alpha != 0 ? (double)p->alpha * x : 0) : x;
    case PARE_POST_CLIP: return fmin((double)p->beta, fmax((double)p->alpha, x));
    case PARE_POST_SIGMOID: return 1 / (1 + exp(-x));
    case PARE_POST_SWISH: return x / (1 + exp(-(double)p->alpha * x));
    case PARE_POST_HARDSWISH: return x * fmin(6, fmax(0, x + 3)) / 6;
    case PARE_POST_GELU: return 0.5 * x * erfc(-x * sqrt(0.5));
    default: return NAN;
    }
}

static const struct pare_post_op posts[] = {
    { PARE_POST_SUM, 0, 0 },   { PARE_POST_RELU, 0, 0 },        { PARE_POST_RELU, 0.1f, 0 },
    { PARE_POST_CLIP, -1, 6 }, { PARE_POST_CLIP, 0, INFINITY }, { PARE_POST_SIGMOID, 0, 0 },
    { PARE_POST_SWISH, 1, 0 }, { PARE_POST_SWISH, 1.7f, 0 },    { PARE_POST_HARDSWISH, 0, 0 },
    { PARE_POST_GELU, 0, 0 },
};

typedef void applier(const struct pare_post_op *p, const struct pare_post_area *a);

static struct pare_rng rng;

static float random_value(double size)
{
    return (float)((2 * pare_rng_uniform(&rng) - 1) * size);
}

/* Rows with a gap, which must not change.  Errors are relative to the operand, of sigmoid to
 * 1; beyond 80 sigmoid is 0 or 1. */
static void check_post_op(applier *f, const struct pare_post_op *p, double size)
{
    float x[ROWS * STEP], y[ROWS * STEP], sum[ROWS * STEP];
    struct pare_post_area a = { .y = y, .sum = sum, .rows = ROWS, .step = STEP, .n = COUNT };

    for (int i = 0; i < ROWS * STEP; i++) {
        x[i] = y[i] = random_value(size);
        sum[i] = random_value(size);
    }
    f(p, &a);
    for (int i = 0; i < ROWS * STEP; i++) {
        double want = i % STEP < COUNT ? reference(p, (double)x[i], (double)sum[i]) : (double)x[i];
        double magnitude = p->kind == PARE_POST_SIGMOID ? 1 : fabs((double)x[i]) + fabs(want);

        if (fabs((double)y[i] - want) > 2.5e-7 * magnitude)
            fail_msg("post-op %d of %.9g: %.9g, expected %.9g", (int)p->kind, (double)x[i],
                     (double)y[i], want);
    }
}

/* Infinities, zeros and NaN. */
static void check_special_values(applier *f, const struct pare_post_op *p)
{
    float y[8] = { INFINITY, -INFINITY, NAN, 0, 1e30f, -1e30f, 200, -200 }, sum[8] = { 0 };
    struct pare_post_area a = { .y = y, .sum = sum, .rows = 1, .n = 8 };

    if (p->kind == PARE_POST_SUM || p->kind == PARE_POST_CLIP)
        return;
    f(p, &a);
    assert_true(y[0] > 1e38f || (p->kind == PARE_POST_SIGMOID && y[0] == 1));
    assert_true(isnan(y[2]));
    assert_true(y[3] == (p->kind == PARE_POST_SIGMOID ? 0.5f : 0.0f));
    assert_true(y[4] >= 1);
    if (p->kind == PARE_POST_GELU)
        assert_true(fabsf(y[1]) < 1e-6f && fabsf(y[5]) < 1e-6f && fabsf(y[7]) < 1e-6f);
    if (p->kind == PARE_POST_RELU && p->alpha == 0)
        assert_true(y[1] == 0 && y[5] == 0);
}

static void check_all(applier *f, bool narrow)
{
    pare_rng_init(&rng, 3);
    for (size_t k = 0; k < sizeof(posts) / sizeof(*posts); k++) {
        for (int i = 0; i < 300; i++)
            check_post_op(f, &posts[k], i % 3 ? (i % 2 ? 8 : 0.1) : 80);
        if (narrow)
            check_special_values(f, &posts[k]);
    }
}

static void test_plain_c(void **state)
{
    (void)state;
    check_all(apply_plain, true);
}

static void test_avx2(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_all(apply_avx2, true);
#endif
}

static void test_avx512(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        check_all(apply_avx512, false);
#endif
}

/* Two post-ops over several blocks, with the variant that this machine selects. */
static void test_two_post_ops(void **state)
{
    enum { N = 5000 };
    const struct pare_post_op list[] = { { PARE_POST_SUM, 0, 0 }, { PARE_POST_SWISH, 1, 0 } };
    static float x[N], y[N], sum[N];

    (void)state;
    pare_rng_init(&rng, 4);
    for (int i = 0; i < N; i++) {
        x[i] = y[i] = random_value(5);
        sum[i] = random_value(5);
    }
    run_included(list, 2, &(struct pare_post_area){ .y = y, .sum = sum, .rows = 1, .n = N });
    for (int i = 0; i < N; i++) {
        double v = (double)(x[i] + sum[i]);

        assert_true(fabs((double)y[i] - v / (1 + exp(-v))) < 3e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_c),
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_two_post_ops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
