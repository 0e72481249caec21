/* test_roundings.c - every rounding method: never worse than the nearest levels in the norm of the
 * Gram matrix, nearly exact in 8 bits, masks, groups, failing allocations; scales without data
 * against exhaustive search and closed forms. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "quant/rounding/gram_round.h"

enum { ROWS = 4, K = 40, N = 100, SIZE = 16, BLOCKS = 3 };

static struct pare_arena *arena;
static struct pare_err err;
static double w[ROWS * K], g[K * K];
static float scale[ROWS * BLOCKS], zero[ROWS * BLOCKS];
static int16_t level[ROWS * K];
static double shift[ROWS];

static int setup(void **state)
{
    static double x[N * K];
    struct pare_rng rng;

    (void)state;
    arena = pare_arena_new(1 << 16);
    pare_rng_init(&rng, 11);
    for (int n = 0; n < N; n++) {
        double common = pare_rng_normal(&rng);

        for (int k = 0; k < K; k++)
            x[n * K + k] = (1 + k % 5) * (0.3 + common + 0.7 * pare_rng_normal(&rng));
    }
    memset(g, 0, sizeof(g));
    for (int n = 0; n < N; n++)
        for (int a = 0; a < K; a++)
            for (int b = 0; b < K; b++)
                g[a * K + b] += x[n * K + a] * x[n * K + b] / N;
    for (int i = 0; i < ROWS * K; i++) /* the last row has outliers */
        w[i] = 0.2 * pare_rng_normal(&rng) * (i / K == ROWS - 1 && i % 9 == 0 ? 6 : 1) + 0.05;
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static struct pare_gram_round problem(const struct pare_rounding_method *m, int bits,
                                      bool symmetric, bool groups)
{
    int64_t half = (int64_t)1 << (bits - 1);

    return (struct pare_gram_round){
        .rows = ROWS,
        .k = K,
        .w = w,
        .g = g,
        .damping = 1e-3,
        .threads = 1,
        .method = m,
        .scales = pare_find_rounding("mse"),
        .steps = m->steps ? 100 : 0,
        .grid = { .qmin = symmetric ? -half : 0,
                  .qmax = symmetric ? half - 1 : 2 * half - 1,
                  .symmetric = symmetric,
                  .blocks = groups ? BLOCKS : 1,
                  .size = groups ? SIZE : K },
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

static double gram_error(const struct pare_gram_round *r, int row)
{
    double sum = 0;

    for (int a = 0; a < K; a++)
        for (int b = 0; b < K; b++)
            sum += (value(r, row, a) - w[row * K + a]) * g[a * K + b] *
                   (value(r, row, b) - w[row * K + b]);
    return sum;
}

static void run(struct pare_gram_round *r)
{
    if (pare_gram_round(r, arena, &err))
        fail_msg("%s: %s", r->method->name, err.msg);
    for (int64_t i = 0; i < r->rows * r->k; i++)
        assert_true(level[i] >= r->grid.qmin && level[i] <= r->grid.qmax);
    for (int64_t i = 0; i < r->rows * r->grid.blocks; i++)
        assert_true(scale[i] > 0 && zero[i] >= (float)r->grid.qmin &&
                    zero[i] <= (float)r->grid.qmax && rintf(zero[i]) == zero[i]);
}

static void test_no_method_is_worse_than_the_nearest_levels_in_any_row(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 8; bits += bits < 4 ? 1 : 4)
        for (int form = 0; form < 4; form++) {
            double nearest[ROWS];

            for (int i = 0; pare_roundings[i]; i++) {
                struct pare_gram_round r = problem(pare_roundings[i], bits, form & 1, form & 2);
                double sum = 0;

                run(&r);
                for (int row = 0; row < ROWS; row++) {
                    double e = gram_error(&r, row);

                    if (!i) /* nearest is the first of the list */
                        nearest[row] = e;
                    assert_true(e <= nearest[row] * (1 + 1e-9));
                    sum += e;
                }
                assert_true(fabs(sum - r.error) <= 1e-9 + 1e-6 * sum);
                assert_true(!r.method->needs_data || r.error < 0.9 * r.nearest);
            }
        }
}

static void test_eight_bits_change_nearly_nothing(void **state)
{
    (void)state;
    for (int i = 0; pare_roundings[i]; i++)
        for (int form = 0; form < 4; form++) {
            struct pare_gram_round r = problem(pare_roundings[i], 8, form & 1, form & 2);
            double power = 0;

            run(&r);
            for (int row = 0; row < ROWS; row++)
                for (int a = 0; a < K; a++)
                    for (int b = 0; b < K; b++)
                        power += w[row * K + a] * g[a * K + b] * w[row * K + b];
            assert_true(r.error < 2e-4 * power);
        }
}

static void test_methods_without_data_need_none(void **state)
{
    (void)state;
    for (int i = 0; pare_roundings[i]; i++)
        for (int form = 0; form < 4 && !pare_roundings[i]->needs_data; form++) {
            struct pare_gram_round r = problem(pare_roundings[i], 4, form & 1, form & 2);

            r.g = NULL;
            run(&r);
            assert_true(r.error > 0 && !r.failed);
            for (int k = 0; k < ROWS * K; k++) {
                int64_t at = k / K * r.grid.blocks + k % K / r.grid.size;

                assert_int_equal(level[k],
                                 pare_nearest_level(&r.grid, (float)w[k], scale[at], zero[at]));
            }
        }
}

static void test_masked_weights_stay_zero(void **state)
{
    static uint8_t keep[ROWS * K];

    (void)state;
    for (int i = 0; pare_roundings[i]; i++)
        for (int form = 0; form < 4; form++) {
            struct pare_gram_round r = problem(pare_roundings[i], 3, form & 1, form & 2);

            for (int k = 0; k < ROWS * K; k++) {
                keep[k] = k % 3 != 1;
                w[k] = keep[k] ? w[k] : 0;
            }
            r.keep = keep;
            run(&r);
            for (int k = 0; k < ROWS * K; k++)
                assert_true(keep[k] || value(&r, k / K, k % K) == 0);
        }
}

static void test_constant_and_zero_weights(void **state)
{
    const double values[] = { 0, 0.3, -0.3 };

    (void)state;
    for (int v = 0; v < 3; v++)
        for (int i = 0; pare_roundings[i]; i++)
            for (int form = 0; form < 4; form++) {
                struct pare_gram_round r = problem(pare_roundings[i], 4, form & 1, form & 2);

                for (int k = 0; k < ROWS * K; k++)
                    w[k] = values[v];
                run(&r);
                assert_true(v || (r.error == 0 && level[0] == (int16_t)zero[0]));
                assert_true(r.error <= r.nearest);
            }
}

/* ---- scales ---------------------------------------------------------------------------------- */

static double norm(const struct pare_fit *f, double s, double z, double p, double rms)
{
    double sum = 0;

    for (int64_t k = 0; k < f->n; k++)
        sum += (rms > 0 ? rms + fabs(f->w[k]) : 1) *
               pow(fabs(pare_grid_value(f->grid, f->w[k], s, z) - f->w[k]), p);
    return sum;
}

/* The least error over a fine grid of scales and all zero points. */
static double exhaustive(const struct pare_fit *f, double p, double rms)
{
    double lo, hi, best = INFINITY, whole;
    const struct pare_round_grid *grid = f->grid;

    pare_row_range(f->w, f->n, &lo, &hi);
    whole = (hi > -lo ? hi : -lo) / (double)(grid->qmax - grid->middle);
    for (int i = 1; i <= 400; i++)
        for (int64_t z = grid->symmetric ? grid->middle : grid->qmin;
             z <= (grid->symmetric ? grid->middle : grid->qmax); z++) {
            double e = norm(f, whole * i / 300, (double)z, p, rms);

            best = e < best ? e : best;
        }
    return best;
}

static double rms_of(const struct pare_fit *f)
{
    double sum = 0;

    for (int64_t k = 0; k < f->n; k++)
        sum += f->w[k] * f->w[k];
    return sqrt(sum / (double)f->n);
}

/* Not exact, but close to the best in the method's own norm, and never above the whole range. */
static void test_scales_are_close_to_the_best_of_an_exhaustive_search(void **state)
{
    const struct {
        const char *name;
        double p, above;
    } cases[] = { { "mse", 2, 1.35 }, { "kquant", 2, 1.35 }, { "hqq", 0.7, 1.6 } };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int form = 0; form < 4; form++)
            for (int row = 0; row < ROWS; row++) {
                struct pare_gram_round r = problem(pare_find_rounding(cases[i].name),
                                                   form & 2 ? 4 : 3, form & 1, false);
                struct pare_fit f = { .grid = &r.grid, .w = w + row * K, .n = 32 };
                double rms = strcmp(cases[i].name, "kquant") ? 0 : rms_of(&f), found, whole;
                float s, z;

                pare_find_rounding("nearest")->fit(&f, &s, &z);
                whole = norm(&f, (double)s, (double)z, cases[i].p, rms);
                r.method->fit(&f, &s, &z);
                found = norm(&f, (double)s, (double)z, cases[i].p, rms);
                assert_true(found <= whole * (1 + 1e-9));
                if (row < ROWS - 1 || strcmp(cases[i].name, "hqq"))
                    assert_true(found <= cases[i].above * exhaustive(&f, cases[i].p, rms));
            }
}

/* Levels 0 to 15 with some step and offset: least squares finds both, the whole range does not,
 * since the largest weight is off the grid. */
static void test_kquant_recovers_a_grid(void **state)
{
    struct pare_gram_round r = problem(pare_find_rounding("kquant"), 4, false, false);
    struct pare_fit f = { .grid = &r.grid, .w = w, .n = 32 };
    float s, z;

    (void)state;
    for (int k = 0; k < 32; k++)
        w[k] = 0.11 * (k % 16 - 6);
    w[15] += 0.045;
    r.method->fit(&f, &s, &z);
    assert_true(z == 6);
    assert_true(fabs((double)s - 0.11) < 1.5e-3);
}

/* With small weights nothing is shrunk, so that one step of the zero point is mean(q - w / s). */
static void test_hqq_zero_point_is_the_mean_distance_from_the_levels(void **state)
{
    struct pare_gram_round r = problem(pare_find_rounding("hqq"), 2, false, false);
    const double x[4] = { -0.001, 0.0011, 0.0011, 0.0011 };
    struct pare_fit f = { .grid = &r.grid, .w = x, .n = 4 };
    float s, z, s0, z0;

    (void)state;
    pare_find_rounding("nearest")->fit(&f, &s0, &z0);
    r.method->fit(&f, &s, &z);
    assert_true(s == s0); /* affine: the scale stays */
    assert_true(norm(&f, (double)s, (double)z, 0.7, 0) <= norm(&f, (double)s0, (double)z0, 0.7, 0));
    for (int q = 0; q < 4; q++) /* of all zero points */
        assert_true(norm(&f, (double)s, (double)z, 0.7, 0) <=
                    norm(&f, (double)s, q, 0.7, 0) * (1 + 1e-9));
}

/* ---- few weights ----------------------------------------------------------------------------- */

/* All levels of 3 weights: learned and propagated rounding are near the best for their scales. */
static void test_tiny_rows_against_all_levels(void **state)
{
    enum { T = 3 };
    const double gram[T * T] = { 4, 1.5, 0.5, 1.5, 2, -0.4, 0.5, -0.4, 1 };
    const double x[T] = { 0.33, -0.52, 0.74 };
    const char *const names[] = { "gptq", "adaround", "autoround" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_gram_round r = problem(pare_find_rounding(names[i]), 2, true, false);
        double best = INFINITY;

        r.rows = 1;
        r.k = r.grid.size = T;
        r.w = x;
        r.g = gram;
        r.grid.given = true;
        scale[0] = 0.4f;
        zero[0] = 0;
        run(&r);
        for (int n = 0; n < 64; n++) {
            double e[T], sum = 0;

            for (int k = 0; k < T; k++)
                e[k] = ((n >> 2 * k & 3) - 2) * (double)scale[0] - x[k];
            for (int a = 0; a < T; a++)
                for (int b = 0; b < T; b++)
                    sum += e[a] * gram[a * T + b] * e[b];
            best = sum < best ? sum : best;
        }
        assert_true(r.error <= 1.2 * best + 1e-12 && r.error >= best - 1e-12);
    }
}

/* gptq fits the scales to its levels by least squares. */
static void test_no_other_scale_improves_gptq(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        struct pare_gram_round r = problem(pare_find_rounding("gptq"), 3, form & 1, form & 2);

        run(&r);
        for (int row = 0; row < ROWS; row++)
            for (int64_t b = 0; b < r.grid.blocks; b++)
                for (int k = -1; k <= 1; k += 2) {
                    float *s = &scale[row * r.grid.blocks + b], was = *s;
                    double before = gram_error(&r, row);

                    *s *= 1 + 0.05f * (float)k;
                    assert_true(gram_error(&r, row) >= before);
                    *s = was;
                }
    }
}

static void test_failing_allocations(void **state)
{
    (void)state;
    for (int i = 0; pare_roundings[i]; i++) {
        int failures = 0;

        for (int n = 1;; n++) {
            struct pare_gram_round r = problem(pare_roundings[i], 3, true, true);
            struct pare_arena *a = pare_arena_new(1 << 12);
            bool reached;
            int rc;

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
        assert_true(failures > 8);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_method_is_worse_than_the_nearest_levels_in_any_row),
        TEST(test_eight_bits_change_nearly_nothing),
        TEST(test_methods_without_data_need_none),
        TEST(test_masked_weights_stay_zero),
        TEST(test_constant_and_zero_weights),
        TEST(test_scales_are_close_to_the_best_of_an_exhaustive_search),
        TEST(test_kquant_recovers_a_grid),
        TEST(test_hqq_zero_point_is_the_mean_distance_from_the_levels),
        TEST(test_tiny_rows_against_all_levels),
        TEST(test_no_other_scale_improves_gptq),
        TEST(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
