/* test_schedule.c - learning-rate schedules against PyTorch's values, written by
 * tools/golden_optim.py. */
#include "case_names.h"

#include <math.h>

#include "train/schedule.h"

static void test_rates_match_pytorch(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_named *list;
    int n;

    (void)state;
    list = read_cases(a, "golden/schedule.npz", &n);
    assert_true(n >= 12);
    for (int i = 0; i < n; i++) {
        struct case_name c = parse_case_name(a, list[i].name);
        const char *epoch = case_take(&c, "epoch"), *warmup = case_take(&c, "warmup");
        const char *factor = case_take(&c, "factor");
        struct pare_lr s = { .base = 0.1,
                             .epoch_steps = atoll(epoch),
                             .total_steps = 20,
                             .warmup = warmup ? atoll(warmup) : 0,
                             .warmup_factor = factor ? strtod(factor, NULL) : 0 };
        struct pare_err err;

        assert_int_equal(pare_find_schedule(c.name, &s.type, &err), 0);
        s.conf = case_conf(a, &c, s.type->opts, s.type->conf_size);
        for (int64_t t = 0; t < 20; t++) {
            double want = ((double *)list[i].t.data)[t], got = pare_lr(&s, t);

            if (!(fabs(got - want) <= 1e-5 * want))
                fail_msg("%s: step %d: %.9g, PyTorch has %.9g", list[i].name, (int)t, got, want);
        }
    }
    pare_arena_free(a);
}

/* Any combination of steps and totals gives a rate between 0 and the base rate. */
static void test_rates_at_extreme_steps(void **state)
{
    static const int64_t counts[] = { 0, 1, 2, 5, 1000000, INT64_MAX / 2 };
    struct pare_arena *a = pare_arena_new(1 << 14);

    (void)state;
    for (int k = 0; pare_schedules[k]; k++) {
        struct case_name c = { .name = pare_schedules[k]->name };
        struct pare_lr s = { .type = pare_schedules[k], .base = 0.1, .warmup_factor = 0.5 };

        if (!strcmp(c.name, "multistep")) {
            c.key[0] = "milestones";
            c.value[c.n++] = "3";
        }
        s.conf = case_conf(a, &c, s.type->opts, s.type->conf_size);
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                for (int e = 0; e < 3; e++) {
                    double v;

                    s.total_steps = counts[j];
                    s.epoch_steps = e;
                    s.warmup = e == 2 ? 3 : 0;
                    v = pare_lr(&s, counts[i]);
                    assert_true(v >= 0 && v <= 0.1 + 1e-12);
                }
    }
    pare_arena_free(a);
}

/* PyTorch's CosineAnnealingWarmRestarts(T_0=2, T_mult=2). */
static void test_cosine_restarts(void **state)
{
    static const double want[] = { 1, 0.5, 1, 0.85355339, 0.5, 0.14644661, 1, 0.96193977 };
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct case_name c = { .name = "cosine", .n = 2 };
    struct pare_lr s = { .base = 1, .epoch_steps = 3, .total_steps = 100 };
    struct pare_err err;

    (void)state;
    c.key[0] = "restart";
    c.value[0] = "2";
    c.key[1] = "restart_mult";
    c.value[1] = "2";
    assert_int_equal(pare_find_schedule(c.name, &s.type, &err), 0);
    s.conf = case_conf(a, &c, s.type->opts, s.type->conf_size);
    for (int64_t t = 0; t < 8; t++)
        assert_true(fabs(pare_lr(&s, 3 * t) - want[t]) < 1e-7);
    c.value[1] = "1";
    s.conf = case_conf(a, &c, s.type->opts, s.type->conf_size);
    for (int64_t t = 0; t < 60; t++)
        assert_true(fabs(pare_lr(&s, t) - pare_lr(&s, t % 6)) < 1e-12);
    assert_true(pare_lr(&s, INT64_MAX / 2) <= 1);
    pare_arena_free(a);
}

static void test_unknown_names_are_errors(void **state)
{
    const struct pare_schedule *s;
    struct pare_err err;

    (void)state;
    assert_int_equal(pare_find_schedule("cosin", &s, &err), PARE_ECONFIG);
    assert_string_equal(err.msg, "there is no schedule 'cosin' (did you mean 'cosine'?)");
    assert_int_equal(pare_find_schedule("magic", &s, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "only constant, step, multistep"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_match_pytorch),
        cmocka_unit_test(test_rates_at_extreme_steps),
        cmocka_unit_test(test_cosine_restarts),
        cmocka_unit_test(test_unknown_names_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
