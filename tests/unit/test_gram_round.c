/* test_gram_round.c - weights rounded by Gram matrices: never worse than the nearest levels, no
 * single weight can improve, masks and biases, degenerate statistics, failing allocations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "quant/rounding/gram_round.h"

enum { ROWS = 5, K = 70, N = 300 };

static struct pare_arena *arena;
static struct pare_err err;
static double w[ROWS * K], g[K * K], cross[K * K], mean[K], d_mean[K], x[N * K], d[N * K];
static float scale[ROWS * 8], zero[ROWS * 8];
static int16_t level[ROWS * K];
static double shift[ROWS];

/* Inputs that are correlated, not centered, and of different power; d is x plus noise. */
static int setup(void **state)
{
    struct pare_rng rng;

    (void)state;
    arena = pare_arena_new(1 << 16);
    pare_rng_init(&rng, 7);
    for (int n = 0; n < N; n++) {
        double common = pare_rng_normal(&rng);

        for (int k = 0; k < K; k++) {
            x[n * K + k] = (1 + k % 7) * (0.5 + common + 0.5 * pare_rng_normal(&rng));
            d[n * K + k] = x[n * K + k] + 0.2 * pare_rng_normal(&rng);
        }
    }
    memset(g, 0, sizeof(g));
    memset(cross, 0, sizeof(cross));
    memset(mean, 0, sizeof(mean));
    memset(d_mean, 0, sizeof(d_mean));
    for (int n = 0; n < N; n++)
        for (int a = 0; a < K; a++) {
            mean[a] += x[n * K + a] / N;
            d_mean[a] += d[n * K + a] / N;
            for (int b = 0; b < K; b++) {
                g[a * K + b] += x[n * K + a] * x[n * K + b] / N;
                cross[a * K + b] += d[n * K + a] * x[n * K + b] / N;
            }
        }
    for (int i = 0; i < ROWS * K; i++)
        w[i] = 0.2 * pare_rng_normal(&rng);
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static struct pare_gram_round problem(int bits, bool symmetric)
{
    int64_t half = (int64_t)1 << (bits - 1);

    return (struct pare_gram_round){
        .rows = ROWS,
        .k = K,
        .w = w,
        .g = g,
        .damping = 1e-3,
        .threads = 2,
        .method = pare_find_rounding("gptq"),
        .scales = pare_find_rounding("mse"),
        .grid = { .qmin = symmetric ? -half : 0,
                  .qmax = symmetric ? half - 1 : 2 * half - 1,
                  .symmetric = symmetric,
                  .blocks = 1,
                  .size = K },
        .scale = scale,
        .zero = zero,
        .level = level,
        .shift = shift,
    };
}

static double value(const struct pare_gram_round *r, int row, int k)
{
    int64_t at = row * r->grid.blocks + k / r->grid.size;

    return ((double)level[row * K + k] - (double)zero[at]) * (double)scale[at];
}

/* The mean squared error of the outputs of a row, from the inputs themselves. */
static double output_error(const struct pare_gram_round *r, int row)
{
    double sum = 0;

    for (int n = 0; n < N; n++) {
        double y = r->mean ? shift[row] : 0;

        for (int k = 0; k < K; k++)
            y += value(r, row, k) * x[n * K + k] -
                 w[row * K + k] * (r->cross ? d[n * K + k] : x[n * K + k]);
        sum += y * y / N;
    }
    return sum;
}

static double all_errors(const struct pare_gram_round *r)
{
    double sum = 0;

    for (int i = 0; i < ROWS; i++)
        sum += output_error(r, i);
    return sum;
}

static void run(struct pare_gram_round *r)
{
    if (pare_gram_round(r, arena, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < ROWS * K; i++)
        assert_true(level[i] >= r->grid.qmin && level[i] <= r->grid.qmax);
}

static void test_error_is_that_of_the_outputs_and_below_the_nearest(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 8; bits++)
        for (int form = 0; form < 8; form++) {
            struct pare_gram_round r = problem(bits, form & 1);

            r.mean = form & 2 ? mean : NULL;
            r.cross = form & 4 ? cross : NULL;
            r.d_mean = form & 4 ? d_mean : NULL;
            run(&r);
            assert_false(r.failed);
            assert_true(r.error <= r.nearest);
            assert_true(bits > 6 || r.error < 0.5 * r.nearest);
            if (!r.cross) /* with a cross-Gram both lack the same constant */
                assert_true(fabs(all_errors(&r) - r.error) < 1e-9 + 1e-6 * r.error);
        }
}

/* The cross-Gram makes up for the difference of the inputs, and the bias for that of the means. */
static void test_cross_gram_and_means_reduce_the_error_of_the_outputs(void **state)
{
    struct pare_gram_round plain = problem(4, true), better = problem(4, true);
    double before;

    (void)state;
    run(&plain);
    plain.cross = cross; /* what is measured */
    before = all_errors(&plain);
    better.cross = cross;
    run(&better);
    assert_true(all_errors(&better) < before);
    before = all_errors(&better);
    better.mean = mean;
    better.d_mean = d_mean;
    run(&better);
    assert_true(all_errors(&better) < before);
}

static void test_no_single_level_improves_the_result(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 4; bits++) {
        struct pare_gram_round r = problem(bits, true);

        r.mean = mean;
        run(&r);
        for (int row = 0; row < ROWS; row++)
            for (int k = 0; k < K; k++)
                for (int step = -1; step <= 1; step += 2) {
                    double before = output_error(&r, row), by = (double)scale[row] * step;

                    if (level[row * K + k] + step < r.grid.qmin ||
                        level[row * K + k] + step > r.grid.qmax)
                        continue;
                    level[row * K + k] = (int16_t)(level[row * K + k] + step);
                    shift[row] -= by * mean[k];
                    assert_true(output_error(&r, row) >= before * (1 - 1e-9));
                    level[row * K + k] = (int16_t)(level[row * K + k] - step);
                    shift[row] += by * mean[k];
                }
    }
}

static void test_learned_rounding_is_not_worse(void **state)
{
    struct pare_gram_round r = problem(2, true);
    double before;

    (void)state;
    run(&r);
    before = r.error;
    r.method = pare_find_rounding("adaround");
    r.steps = 200;
    run(&r);
    assert_true(r.error <= before);
    assert_true(fabs(all_errors(&r) - r.error) < 1e-9 + 1e-6 * r.error);
}

static void test_groups_use_the_scales_that_are_given(void **state)
{
    struct pare_gram_round r = problem(4, true);
    float was[ROWS * 8];

    (void)state;
    r.grid.blocks = 5;
    r.grid.size = 16;
    r.grid.given = true;
    for (int i = 0; i < ROWS * 5; i++) {
        scale[i] = 0.05f + 0.002f * (float)i;
        zero[i] = 0;
    }
    memcpy(was, scale, sizeof(was));
    run(&r);
    assert_memory_equal(scale, was, sizeof(float) * ROWS * 5);
    assert_true(r.error < 0.5 * r.nearest);
    assert_true(fabs(all_errors(&r) - r.error) < 1e-9 + 1e-6 * r.error);
}

static void test_weights_on_the_grid_stay(void **state)
{
    struct pare_gram_round r = problem(4, true);

    (void)state;
    r.grid.given = true;
    for (int i = 0; i < ROWS; i++) {
        scale[i] = 0.125f;
        zero[i] = 0;
        for (int k = 0; k < K; k++)
            w[i * K + k] = 0.125 * ((i * 5 + k * 3) % 16 - 8);
    }
    run(&r);
    for (int i = 0; i < ROWS * K; i++)
        assert_int_equal(level[i], (i / K * 5 + i % K * 3) % 16 - 8);
    assert_true(r.error == 0 && r.nearest == 0);
}

static void test_masked_weights_stay_zero(void **state)
{
    uint8_t keep[ROWS * K];

    (void)state;
    for (int form = 0; form < 4; form++) {
        struct pare_gram_round r = problem(3, form & 1);

        for (int i = 0; i < ROWS * K; i++) {
            keep[i] = i % 3 != 0;
            w[i] = keep[i] ? w[i] : 0;
        }
        r.keep = keep;
        r.method = pare_find_rounding(form & 2 ? "adaround" : "gptq");
        r.steps = 50;
        run(&r);
        for (int i = 0; i < ROWS * K; i++)
            assert_true(keep[i] || value(&r, i / K, i % K) == 0);
        assert_true(r.error < r.nearest);
    }
}

static void test_degenerate_statistics_give_the_nearest_levels(void **state)
{
    const double bad[] = { 0, NAN, INFINITY };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_gram_round r = problem(4, true);

        for (int k = 0; k < K * K; k++)
            g[k] = bad[i];
        r.mean = mean;
        run(&r);
        assert_true(r.failed);
        for (int k = 0; k < ROWS * K; k++)
            assert_int_equal(level[k],
                             pare_nearest_level(&r.grid, (float)w[k], scale[k / K], zero[k / K]));
        for (int row = 0; row < ROWS; row++)
            assert_true(shift[row] == 0);
    }
}

/* Inputs that are always 0, and fewer items than inputs. */
static void test_singular_statistics_are_damped(void **state)
{
    struct pare_gram_round r = problem(4, true);

    (void)state;
    memset(g, 0, sizeof(g));
    for (int n = 0; n < 9; n++)
        for (int a = 0; a < K; a++)
            for (int b = 0; b < K; b++)
                g[a * K + b] += a % 10 && b % 10 ? x[n * K + a] * x[n * K + b] : 0;
    run(&r);
    assert_false(r.failed);
    assert_true(r.error < r.nearest);
}

static void test_failing_allocations(void **state)
{
    int failures = 0;

    (void)state;
    for (int n = 1;; n++) {
        struct pare_gram_round r = problem(3, true);
        struct pare_arena *a = pare_arena_new(1 << 12);
        bool reached;
        int rc;

        r.cross = cross;
        r.method = pare_find_rounding("adaround");
        r.steps = 2;
        pare_oom_countdown = -n;
        rc = pare_gram_round(&r, a, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        pare_arena_free(a);
        failures += rc != 0;
        assert_true(!rc || rc == PARE_ENOMEM);
        if (!reached)
            break;
    }
    assert_true(failures > 15);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_error_is_that_of_the_outputs_and_below_the_nearest),
        TEST(test_cross_gram_and_means_reduce_the_error_of_the_outputs),
        TEST(test_no_single_level_improves_the_result),
        TEST(test_learned_rounding_is_not_worse),
        TEST(test_groups_use_the_scales_that_are_given),
        TEST(test_weights_on_the_grid_stay),
        TEST(test_masked_weights_stay_zero),
        TEST(test_degenerate_statistics_give_the_nearest_levels),
        TEST(test_singular_statistics_are_damped),
        TEST(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
