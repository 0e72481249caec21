/* test_histogram.c - histograms of activations in constant memory: growing range, outliers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "quant/histogram.h"

#define N 100000

static struct pare_histogram h;
static uint32_t partial_counts[2 * 2 * PARE_HIST_TABLE];
static float x[N];

static void add_batch(float lo, float hi)
{
    pare_histogram_add(&h, &(struct pare_hist_batch){ x, N, lo, hi, 2, partial_counts });
    h.lo = fmin(h.lo, (double)lo);
    h.hi = fmax(h.hi, (double)hi);
}

static int64_t total_count(void)
{
    int64_t sum = h.zeros;

    for (int i = 0; i < PARE_BINS; i++)
        sum += h.count[i];
    return sum;
}

/* Approximately a normal distribution: the sum of four uniform ones, by a fixed generator. */
static void fill_bell_curve(float outlier)
{
    uint32_t s = 12345;

    for (int i = 0; i < N; i++) {
        x[i] = 0;
        for (int k = 0; k < 4; k++) {
            s = s * 1664525u + 1013904223u;
            x[i] += (float)(s >> 8) / 16777216.0f - 0.5f;
        }
    }
    x[77] = outlier;
}

static void begin_histogram(float outlier)
{
    memset(&h, 0, sizeof(h));
    fill_bell_curve(outlier);
    add_batch(-2, fmaxf(2, outlier));
}

/* Larger values extend the range; earlier counts move to the right bins. */
static void test_range_grows(void **state)
{
    int64_t below = 0, all;

    (void)state;
    begin_histogram(0);
    all = total_count();
    assert_int_equal(all, N);
    add_batch(-2, 1000);
    assert_int_equal(total_count(), 2 * N);
    assert_true(h.reach >= 1000 && h.reach < 2100);
    for (int i = 0; i < PARE_BINS / 2; i++)
        below += h.count[i];
    assert_true((double)below > 0.98 * N && (double)below < 1.02 * N); /* half of 2 N */
    x[3] = NAN;
    x[4] = INFINITY;
    add_batch(-2, 2);
    assert_int_equal(total_count(), 3 * N);
    memset(x, 0, sizeof(x));
    add_batch(0, 0);
    assert_int_equal(total_count(), 4 * N);
}

/* One outlier of 20, where the other values are within 2. */
static void test_ranges_with_an_outlier(void **state)
{
    struct pare_quant q = { .bits = 8, .axis = -1, .qmin = 0, .qmax = 255 };
    double lo, hi;

    (void)state;
    begin_histogram(20);
    pare_histogram_percentile(&h, 0.9999, &lo, &hi);
    assert_true(lo > -2.1 && lo < -1.5 && hi > 1.5 && hi < 2.1);
    pare_histogram_percentile(&h, 1, &lo, &hi);
    assert_true(lo < -1.8 && fabs(hi - 20) < 1e-6);
    pare_histogram_mse(&h, &q, &lo, &hi); /* with many steps, clipping 20 costs too much */
    assert_true(lo < -1.5 && hi > 15 && hi < 20);
    q.qmax = 15;
    pare_histogram_mse(&h, &q, &lo, &hi); /* with few steps, 20 is clipped */
    assert_true(lo < -1.2 && hi > 1.2 && hi < 5);
    q.qmax = 255;
    pare_histogram_entropy(&h, &q, &lo, &hi);
    assert_true(lo < -1.5 && hi > 1.5 && hi < 8);
}

static void test_only_zeros(void **state)
{
    struct pare_quant q = { .bits = 8, .axis = -1, .qmin = 0, .qmax = 255 };
    double lo, hi;

    (void)state;
    memset(&h, 0, sizeof(h));
    memset(x, 0, sizeof(x));
    add_batch(0, 0);
    pare_histogram_percentile(&h, 0.999, &lo, &hi);
    assert_true(lo == 0 && hi == 0);
    pare_histogram_mse(&h, &q, &lo, &hi);
    assert_true(lo == 0 && hi == 0);
    pare_histogram_entropy(&h, &q, &lo, &hi);
    assert_true(lo == 0 && hi == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_grows),
        cmocka_unit_test(test_ranges_with_an_outlier),
        cmocka_unit_test(test_only_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
