/* test_paired_bound.c - bounds of a paired drop: exact values, coverage, repeated looks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "train/paired_bound.h"

static void assert_near(double is, double want, double tolerance)
{
    assert_true(fabs(is - want) <= tolerance);
}

/* One more item, discordant with probability pb for b and pd for d. */
static void add_item(struct pare_pairs *p, struct pare_rng *r, double pb, double pd)
{
    double u = pare_rng_uniform(r);

    p->n++;
    p->b += u < pb;
    p->d += u >= pb && u < pb + pd;
}

static void test_binomial_bounds_of_small_counts(void **state)
{
    (void)state;
    assert_near(pare_binomial_upper(0, 10, 0.05), 1 - pow(0.05, 0.1), 1e-12);
    assert_near(pare_binomial_upper(0, 1, 0.05), 0.95, 1e-12);
    assert_near(pare_binomial_upper(9, 10, 0.05), pow(0.95, 0.1), 1e-12);
    /* P(X <= 1) = (1 - p)^2 + 2 p (1 - p) = 1 - p^2 */
    assert_near(pare_binomial_upper(1, 2, 0.05), sqrt(0.95), 1e-12);
    assert_near(pare_binomial_upper(10, 10, 0.05), 1, 0);
    assert_near(pare_binomial_upper(0, 0, 0.05), 1, 0);
    assert_near(pare_binomial_upper(0, 10000000, 0.05), -log(0.05) / 1e7, 1e-13);
}

static void test_drop_and_standard_error(void **state)
{
    struct pare_pairs p = { 100, 7, 3 }, none = { 0 }, same = { 50, 0, 0 }, all = { 10, 10, 0 };

    (void)state;
    assert_near(pare_pairs_drop(&p), 0.04, 1e-15);
    assert_near(pare_pairs_error(&p), sqrt(10 - 16. / 100) / 100, 1e-15);
    assert_near(pare_pairs_drop(&none), 0, 0);
    assert_near(pare_pairs_upper(&none, 0.05), 1, 0);
    assert_near(pare_pairs_upper(&same, 0.05), 1 - pow(0.0125, 1. / 50), 1e-12);
    assert_near(pare_pairs_error(&all), 0, 1e-15);
    assert_near(pare_pairs_upper(&all, 0.05), 1, 0);
    all = (struct pare_pairs){ 10, 0, 10 };
    assert_true(pare_pairs_upper(&all, 0.05) < -0.1);
}

/* Every outcome of n items, weighted by its probability: how often is the bound below the drop? */
static double misses(int64_t n, double pb, double pd, double alpha)
{
    double sum = 0;

    for (int64_t b = 0; b <= n; b++)
        for (int64_t d = 0; b + d <= n; d++) {
            struct pare_pairs p = { n, b, d };
            double rest = (double)(n - b - d), x = (double)b, y = (double)d, log_p;

            log_p = lgamma((double)n + 1) - lgamma(x + 1) - lgamma(y + 1) - lgamma(rest + 1);
            if ((pb == 0 && b) || (pd == 0 && d))
                continue;
            log_p += (b ? x * log(pb) : 0) + (d ? y * log(pd) : 0) + rest * log(1 - pb - pd);
            if (pare_pairs_upper(&p, alpha) < pb - pd)
                sum += exp(log_p);
        }
    return sum;
}

static void test_bound_holds_for_every_small_set(void **state)
{
    static const double rate[][2] = { { 0.01, 0 },   { 0.05, 0 },    { 0.02, 0.02 },
                                      { 0.1, 0.05 }, { 0.05, 0.1 },  { 0.3, 0.3 },
                                      { 0.6, 0.1 },  { 0.001, 0.2 }, { 0.005, 0.01 } };
    static const int64_t size[] = { 1, 2, 5, 13, 40 };

    (void)state;
    for (size_t k = 0; k < sizeof(size) / sizeof(*size); k++)
        for (size_t i = 0; i < sizeof(rate) / sizeof(*rate); i++)
            assert_true(misses(size[k], rate[i][0], rate[i][1], 0.05) <= 0.05);
    /* and it is not far too wide: the exact probability is not near 0 */
    assert_true(misses(40, 0.3, 0.3, 0.05) > 0.01);
}

static void test_coverage_of_large_sets_by_simulation(void **state)
{
    struct pare_rng r;
    int missed = 0, runs = 1500;

    (void)state;
    pare_rng_init(&r, 7);
    for (int i = 0; i < runs; i++) {
        struct pare_pairs p = { 0 };

        while (p.n < 2000)
            add_item(&p, &r, 0.03, 0.02);
        missed += pare_pairs_upper(&p, 0.05) < 0.01;
        assert_true(pare_pairs_lower(&p, 0.05) <= pare_pairs_drop(&p));
        assert_true(pare_pairs_upper(&p, 0.05) < pare_pairs_drop(&p) + 3.5 * pare_pairs_error(&p));
    }
    assert_true(missed <= 0.05 * runs + 3 * sqrt(0.05 * 0.95 * runs));
    assert_true(missed > 0);
}

/* Runs that end with `answer`, and the items they looked at. */
static int answers(int runs, const double rate[2], double max, int answer, double *items)
{
    struct pare_rng r;
    int n = 0;

    pare_rng_init(&r, 11);
    *items = 0;
    for (int i = 0; i < runs; i++) {
        struct pare_looks l = pare_looks_start(3000, 0.05);
        struct pare_pairs p = { 0 };
        int found = 0;

        while (!found && p.n < 3000) {
            add_item(&p, &r, rate[0], rate[1]);
            found = pare_looks_decide(&l, &p, max);
        }
        n += found == answer;
        *items += (double)p.n / runs;
    }
    return n;
}

static void test_repeated_looks_keep_the_error_rate(void **state)
{
    /* The drop is exactly at the limit, the hardest case, from above and from below. */
    static const double at[2] = { 0.04, 0.02 }, small[2] = { 0.01, 0.01 }, large[2] = { 0.2, 0.02 };
    double items;
    int runs = 600, most = (int)(0.05 * runs + 3 * sqrt(0.05 * 0.95 * runs));

    (void)state;
    assert_true(answers(runs, at, 0.02 - 1e-9, 1, &items) <= most);
    assert_true(answers(runs, at, 0.02, -1, &items) <= most);
    assert_true(items > 2000);
    /* clear cases are decided early */
    assert_int_equal(answers(100, small, 0.1, 1, &items), 100);
    assert_true(items < 300);
    assert_int_equal(answers(100, large, 0.02, -1, &items), 100);
    assert_true(items < 300);
}

static void test_looks_are_few_and_end_with_the_set(void **state)
{
    struct pare_looks l = pare_looks_start(200, 0.05);
    struct pare_pairs p = { 63, 0, 0 };

    (void)state;
    assert_int_equal(l.count, 3);
    assert_int_equal(pare_looks_decide(&l, &p, 1), 0);
    p.n = 100;
    assert_int_equal(pare_looks_decide(&l, &p, 1), 1);
    assert_int_equal(l.next, 128);
    p.n = 130;
    assert_int_equal(pare_looks_decide(&l, &p, 0.0001), 0);
    assert_int_equal(l.next, 200);
    l = pare_looks_start(10, 0.05);
    assert_int_equal(l.count, 1);
    p = (struct pare_pairs){ 10, 9, 0 };
    assert_int_equal(pare_looks_decide(&l, &p, 0.1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binomial_bounds_of_small_counts),
        cmocka_unit_test(test_drop_and_standard_error),
        cmocka_unit_test(test_bound_holds_for_every_small_set),
        cmocka_unit_test(test_coverage_of_large_sets_by_simulation),
        cmocka_unit_test(test_repeated_looks_keep_the_error_rate),
        cmocka_unit_test(test_looks_are_few_and_end_with_the_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
