/* test_mixup.c - mixed items and labels, the distribution of shares, moving averages, failing
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "train/ema.h"
#include "train/mixup.h"

#define N 5

static struct pare_err err;

static void test_shares_are_beta_distributed(void **state)
{
    static const double alpha[] = { 0.2, 1, 4 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_rng rng;
        double sum = 0, square = 0, var = 1 / (4 * (2 * alpha[i] + 1));
        int n = 40000;

        pare_rng_init(&rng, 7);
        for (int k = 0; k < n; k++) {
            double v = pare_rng_beta(&rng, alpha[i]);

            assert_true(v >= 0 && v <= 1);
            sum += v / n;
            square += v * v / n;
        }
        assert_true(fabs(sum - 0.5) < 0.01);
        assert_true(fabs(square - sum * sum - var) < 0.03 * var);
    }
}

/* A batch of N items with 3 numbers, and a label each. */
struct rig {
    float x[N * 3];
    int64_t y[N];
    struct pare_tensor in;
    int axis;
    struct pare_batch b;
};

static void fill(struct rig *r)
{
    for (int i = 0; i < N * 3; i++)
        r->x[i] = (float)(i * i);
    for (int i = 0; i < N; i++)
        r->y[i] = 10 + i;
    r->in = (struct pare_tensor){ PARE_F32, 2, { N, 3 }, r->x };
    r->axis = 0;
    r->b = (struct pare_batch){ .x = r->in, .in = &r->in, .n_in = 1, .axis = &r->axis };
    r->b.y = (struct pare_tensor){ PARE_I64, 1, { N }, r->y };
}

static void test_pairs_are_mixed(void **state)
{
    static const int other[N] = { 1, 0, 3, 2, 4 };
    struct pare_mixup *m;
    struct rig r;
    double first;

    (void)state;
    fill(&r);
    assert_int_equal(pare_mixup_new(1, 3, &m, &err), 0);
    assert_int_equal(pare_mixup_batch(m, &r.b, 8, &err), 0);
    first = m->share;
    for (int i = 0; i < N; i++) {
        assert_int_equal(((int64_t *)m->y.data)[i], 10 + other[i]);
        for (int k = 0; k < 3; k++) {
            double want = m->share * (double)r.x[i * 3 + k] +
                          (1 - m->share) * (double)r.x[other[i] * 3 + k];

            assert_true(fabs((double)((float *)m->in[0].data)[i * 3 + k] - want) < 1e-3);
        }
    }
    assert_int_equal(pare_mixup_batch(m, &r.b, 9, &err), 0);
    assert_true(m->share != first);
    assert_int_equal(pare_mixup_batch(m, &r.b, 8, &err), 0); /* as in a resumed training */
    assert_true(m->share == first);
    r.in.dtype = PARE_I32;
    assert_int_equal(pare_mixup_batch(m, &r.b, 8, &err), PARE_EUNSUPPORTED);
    pare_mixup_free(m);
    pare_mixup_free(NULL);
}

static void test_failing_allocations(void **state)
{
    int failures = 0;

    (void)state;
    for (int n = 1; n < 100; n++) {
        struct pare_mixup *m = NULL;
        struct rig r;
        bool reached;
        int rc;

        fill(&r);
        pare_oom_countdown = -n;
        rc = pare_mixup_new(1, 3, &m, &err);
        if (!rc)
            rc = pare_mixup_batch(m, &r.b, 8, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        pare_mixup_free(m);
        assert_true(!rc || rc == PARE_ENOMEM);
        failures += rc != 0;
        if (!reached)
            break;
    }
    assert_true(failures > 0);
}

static void test_averages_follow_the_parameters(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    float value[2] = { 1, -2 };
    struct pare_optim optim = { .step = 0 };
    struct pare_optim_param p = { .name = "w", .value = { PARE_F32, 1, { 2 }, value } };
    struct pare_trainer t = { .param = &p, .n_params = 1, .optim = &optim };
    struct pare_ema *e = NULL;
    double want[2] = { 1, -2 };

    (void)state;
    assert_int_equal(pare_ema_new(&t, 0.9, a, &e, &err), 0);
    for (int n = 1; n <= 200; n++) {
        double d = fmin(0.9, (1.0 + n) / (10.0 + n));

        optim.step = n;
        value[0] = (float)n;
        value[1] = -1;
        pare_ema_update(e);
        for (int k = 0; k < 2; k++)
            want[k] = d * want[k] + (1 - d) * (double)value[k];
        for (int k = 0; k < 2; k++)
            assert_true(fabs((double)((float *)e->average[0].data)[k] - want[k]) <
                        1e-5 * (1 + fabs(want[k])));
    }
    pare_ema_update(NULL);
    pare_ema_swap(NULL);
    pare_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_beta_distributed),
        cmocka_unit_test(test_pairs_are_mixed),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_averages_follow_the_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
