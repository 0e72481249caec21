/* test_search.c - searches: sparsity vectors, annealing's rules, held-out parts of a data set. */
#include "data_rig.h"

#include <math.h>
#include <string.h>

#include <pare/compress.h>

#include "base/rng.h"
#include "data/data.h"
#include "prune/sparsity_schedule.h"
#include "search/sparsity_vector.h"

static const double weights[] = { 500, 25000, 400000, 5000 };

static struct pare_sparsity_space space_of(double target, int *order)
{
    struct pare_sparsity_space s = { weights, 4, target, order, true };

    pare_sparsity_order(&s);
    return s;
}

static double overall(const double *v)
{
    double all = 0, gone = 0;

    for (int i = 0; i < 4; i++) {
        all += weights[i];
        gone += weights[i] * v[i];
    }
    return gone / all;
}

static void test_order_is_by_weight(void **state)
{
    int order[4];

    (void)state;
    space_of(0.5, order);
    assert_int_equal(order[0], 0);
    assert_int_equal(order[1], 3);
    assert_int_equal(order[2], 1);
    assert_int_equal(order[3], 2);
}

/* r * s / (sum of floor(w r) / sum of w), as NNI does. */
static void test_rescale_reaches_the_target(void **state)
{
    double v[] = { 0.1, 0.2, 0.4, 0.15 }, zero[] = { 0, 0, 1e-9, 0 },
           high[] = { 0.1, 0.9, 0.4, 0.1 };
    double by = 0.5 * 430500 / (50 + 5000 + 160000 + 750);
    int order[4];
    struct pare_sparsity_space s = space_of(0.5, order);

    (void)state;
    assert_true(pare_sparsity_rescale(&s, v));
    assert_true(fabs(v[2] - 0.4 * by) < 1e-12);
    assert_true(fabs(overall(v) - 0.5) < 1e-9);
    assert_false(pare_sparsity_rescale(&s, zero)); /* nothing to scale */
    assert_false(pare_sparsity_rescale(&s, high)); /* 0.9 becomes more than 1 */
}

/* Also where almost everything is removed, which rejects nearly all uniform draws. */
static void test_draws_are_feasible_and_sorted(void **state)
{
    static const double targets[] = { 0.1, 0.5, 0.9, 0.99 };
    struct pare_rng rng;
    double v[4], next[4];
    int order[4];

    (void)state;
    pare_rng_init(&rng, 1);
    for (int t = 0; t < 4; t++) {
        struct pare_sparsity_space s = space_of(targets[t], order);

        for (int k = 0; k < 50; k++) {
            pare_sparsity_draw(&s, &rng, v);
            pare_sparsity_perturb(&s, &rng, 0.35, v, next);
            for (int i = 0; i < 4; i++)
                assert_true(v[i] >= 0 && v[i] < 1 && next[i] >= 0 && next[i] < 1);
            for (int i = 1; i < 4; i++)
                assert_true(v[order[i]] >= v[order[i - 1]] && next[order[i]] >= next[order[i - 1]]);
            assert_true(fabs(overall(v) - targets[t]) < 1e-4);
            assert_true(fabs(overall(next) - targets[t]) < 1e-4);
        }
    }
}

static void test_annealing_accepts_by_temperature(void **state)
{
    double t = pare_annealing_temperature(0.02);

    (void)state;
    assert_true(pare_annealing_accepts(0, 1e-9, 0.999));
    assert_true(pare_annealing_accepts(-0.1, 1e-9, 0.999));
    assert_true(pare_annealing_accepts(0.02, t, 0.499)); /* exp(-ln 2) */
    assert_false(pare_annealing_accepts(0.02, t, 0.501));
    assert_false(pare_annealing_accepts(0.02, t / 100, 1e-6));
    assert_true(pare_annealing_accepts(1, 20, 0.95)); /* NNI's temperatures accept everything */
    assert_true(pare_annealing_temperature(0) > 0);
}

static void test_parts_of_a_set_are_disjoint(void **state)
{
    struct pare_data *all, *held, *rest;
    struct pare_loader_opts o = { .batch = 1000 };
    const struct pare_batch *b;
    struct pare_loader *l;
    struct pare_err err;
    double sum[2] = { 0, 0 };

    (void)state;
    assert_int_equal(pare_data_open("digits", "train", &(struct pare_data_opts){ .limit = 1000 },
                                    &all, &err),
                     0);
    assert_int_equal(pare_data_part(all, 200, true, &held, &err), 0);
    assert_int_equal(pare_data_part(all, 200, false, &rest, &err), 0);
    assert_int_equal(held->n, 200);
    assert_int_equal(rest->n, 800);
    for (int64_t i = 0; i < all->n; i++)
        sum[0] += (double)((const int64_t *)all->y.data)[i];
    pare_data_free(all); /* the parts keep it */
    for (int k = 0; k < 2; k++) {
        struct pare_data *d = k ? rest : held;
        const int64_t *y = d->y.data;

        assert_int_equal(pare_loader_new(d, &o, &l, &err), 0);
        assert_int_equal(pare_loader_next(l, &b, &err), 0);
        for (int64_t i = 0; i < d->n; i++) {
            sum[1] += (double)y[i];
            assert_int_equal(y[b->index[i]], ((const int64_t *)b->y.data)[i]);
        }
        pare_loader_free(l);
    }
    assert_true(sum[0] == sum[1]);
    pare_data_free(held);
    pare_data_free(rest);
}

/* After a speedup, a round prunes a fraction of what is left; all rounds reach the goal. */
static void test_rounds_reach_the_goal_after_speedup(void **state)
{
    double left = 1, gone = 0;

    (void)state;
    for (int64_t i = 1; i <= 5; i++) {
        double t = pare_sparsity_rounds(0.9, i, 5);

        left *= 1 - pare_sparsity_of_rest(t, gone);
        gone = t;
        assert_true(fabs(left - (1 - t)) < 1e-12);
    }
    assert_true(fabs(left - 0.1) < 1e-12);
    assert_true(fabs(pare_sparsity_of_rest(0.75, 0.5) - 0.5) < 1e-15);
    assert_true(pare_sparsity_of_rest(0.4, 0.5) == 0); /* more is gone already */
    assert_true(pare_sparsity_of_rest(1, 1) == 0);
}

static bool count_progress(void *user, const struct pare_progress *p)
{
    *(int *)user += !strcmp(p->what, "search");
    return true;
}

static bool cancel(void *user, const struct pare_progress *p)
{
    (void)user;
    return strcmp(p->what, "search") != 0;
}

static void test_searches_from_c(void **state)
{
    static const char *const names[][2] = {
        { "simulated_annealing", "cool_down_rate=0.3 eval_items=50" },
        { "sensitivity", "sparsity_per_iter=0.3 eval_items=50" },
        { "netadapt", "sparsity_per_iteration=0.2 finetune_steps=2 eval_items=50" },
        { "auto_compress", "num_iterations=2 admm_num_iterations=1 cool_down_rate=0.3" },
    };
    const int64_t chw[3] = { 1, 8, 8 };
    struct pare_data *data;
    struct pare_err err;

    (void)state;
    assert_int_equal(pare_data_open("digits", "train", &(struct pare_data_opts){ .limit = 300 },
                                    &data, &err),
                     0);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        int calls = 0;
        struct pare_prune_opts o = { .size = sizeof(o),
                                     .pruner = names[i][0],
                                     .settings = names[i][1],
                                     .sparsity = 0.4,
                                     .tuning = { .data = data, .settings = "threads=1" },
                                     .speedup = true,
                                     .progress = count_progress,
                                     .user = &calls };
        struct pare_prune_report r;
        struct pare_model *m, *small;

        assert_int_equal(pare_model_new("lenet", chw, 10, 1, &m, &err), 0);
        if (pare_prune(m, &o, &small, &r, &err))
            fail_msg("%s: %s", names[i][0], err.msg);
        assert_true(calls > 3);
        assert_true(r.params_left < r.params);
        pare_model_free(small);
        o.progress = cancel;
        assert_int_equal(pare_prune(m, &o, &small, &r, &err), PARE_ECANCEL);
        o.tuning.data = NULL;
        assert_int_equal(pare_prune(m, &o, &small, &r, &err), PARE_ECONFIG);
        pare_model_free(m);
    }
    pare_data_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_by_weight),
        cmocka_unit_test(test_rescale_reaches_the_target),
        cmocka_unit_test(test_draws_are_feasible_and_sorted),
        cmocka_unit_test(test_annealing_accepts_by_temperature),
        cmocka_unit_test(test_rounds_reach_the_goal_after_speedup),
        cmocka_unit_test(test_searches_from_c),
        cmocka_unit_test(test_parts_of_a_set_are_disjoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
