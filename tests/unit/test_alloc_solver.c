/* test_alloc_solver.c - budget allocation against brute force, and its limits. */
#include "alloc_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void test_equals_brute_force_on_chains(void **state)
{
    struct rig r;
    int equal = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        begin(&r, seed, 1);
        r.p.fixed[0] = 0.3;
        chain(&r, 3, 5, 4); /* LeNet: two convolutions, two dense layers */
        equal += count_equal(&r, 10);
        assert_true(r.r.exact_steps);
        assert_true(r.r.width <= 2);
    }
    assert_int_equal(equal, 100);
}

static void test_equals_brute_force_on_residual_graphs(void **state)
{
    struct rig r;
    int equal = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        begin(&r, seed, 1);
        residual(&r, 2, 2, 4, 1);
        equal += count_equal(&r, 20);
        assert_true(r.r.exact_steps);
        assert_int_equal(r.r.width, 2);
    }
    assert_int_equal(equal, 100);
}

static void test_equals_brute_force_with_several_budgets(void **state)
{
    struct rig r;
    int equal = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        begin(&r, seed, seed % 2 ? 2 : 3);
        chain(&r, 3, 4, 3);
        equal += count_equal(&r, 10);
    }
    assert_int_equal(equal, 100);
}

/* Errors at random, some negative: the best choice is not the nearest that fits. */
static void test_error_curves_need_not_be_monotone(void **state)
{
    struct rig r;
    int equal = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        begin(&r, seed, 1);
        chain(&r, 3, 5, 3);
        for (int f = 0; f < r.p.n_factors; f++)
            for (int i = 0; i < cells(&r, &r.factor[f]); i++)
                error_of(&r.factor[f])[i] = uniform(&r, -0.2, 1);
        equal += count_equal(&r, 10);
    }
    assert_int_equal(equal, 100);
}

static void test_forbidden_choices_are_avoided(void **state)
{
    struct rig r;
    int equal = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        begin(&r, seed, 1);
        chain(&r, 3, 5, 3);
        for (int f = 0; f < r.p.n_factors; f++)
            for (int i = 1; i < cells(&r, &r.factor[f]); i++)
                if (pare_rng_below(&r.rng, 4) == 0)
                    error_of(&r.factor[f])[i] = INFINITY;
        equal += count_equal(&r, 10);
    }
    assert_int_equal(equal, 100);
}

/* Factors of 0 to 4 variables, some twice; costs of both signs; every other graph in whole numbers,
 * so that there are ties and sums equal to limits. */
static void add_random_factors(struct rig *r, bool whole)
{
    int n = (int)pare_rng_below(&r->rng, 8) + 1;

    for (int i = 0; i < n; i++) {
        int var[4], k = (int)pare_rng_below(&r->rng, 5);
        struct pare_alloc_factor *f;

        for (int j = 0; j < k; j++)
            var[j] = (int)pare_rng_below(&r->rng, (uint64_t)r->p.n_vars);
        f = add_factor(r, k, var);
        for (int c = 0; c < cells(r, f); c++) {
            error_of(f)[c] = whole ? floor(uniform(r, -1, 4)) : uniform(r, -0.3, 1);
            if (pare_rng_below(&r->rng, 8) == 0)
                error_of(f)[c] = INFINITY;
            for (int b = 0; b < r->p.n_budgets; b++)
                cost_of(f, b)[c] = whole ? floor(uniform(r, -1, 5)) : uniform(r, -0.2, 1);
        }
    }
}

static void test_random_graphs_equal_brute_force(void **state)
{
    struct pare_mark mark = pare_mark(arena);
    int feasible = 0;
    struct rig r;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct table t;
        double best;

        begin(&r, seed, (int)(seed % 3) + 1);
        for (int n = (int)pare_rng_below(&r.rng, 5) + 2; n > 0; n--)
            add_var(&r, (int)pare_rng_below(&r.rng, 4) + 1);
        add_random_factors(&r, seed % 2);
        list_all(&r, &t);
        for (int b = 0; b < r.p.n_budgets; b++) /* the costs of an assignment, or less */
            r.p.limit[b] = t.cost[b][pare_rng_below(&r.rng, (uint64_t)t.n)] - (seed % 5 == 0);
        best = least_error(&r, &t);
        feasible += isfinite(best);
        for (int i = 0; i < 5; i++) {
            solve(&r, names[i]);
            assert_int_equal(r.r.feasible, isfinite(best));
            assert_int_equal(r.r.optimal, !i && r.r.feasible);
            if (r.r.optimal)
                assert_true(fabs(r.r.error - best) <= 1e-9);
        }
        pare_reset(arena, mark);
    }
    assert_in_range(feasible, 100, 290);
}

static void test_everything_forbidden_is_infeasible(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, 1, 1);
    chain(&r, 2, 4, 2);
    for (int i = 0; i < cells(&r, &r.factor[1]); i++)
        error_of(&r.factor[1])[i] = INFINITY;
    r.p.limit[0] = 1;
    for (int i = 0; i < 5; i++) {
        solve(&r, names[i]);
        assert_false(r.r.feasible);
        assert_true(isinf(r.r.error));
    }
}

static void test_infeasible_limits_give_the_smallest_violation(void **state)
{
    struct table t;
    struct rig r;

    (void)state;
    begin(&r, 3, 1);
    chain(&r, 3, 4, 3);
    list_all(&r, &t);
    r.p.limit[0] = 0.9 * smallest(t.cost[0], t.n);
    for (int i = 0; i < 5; i++) {
        solve(&r, names[i]);
        assert_false(r.r.feasible);
        assert_false(r.r.optimal);
        assert_true(r.r.cost[0] <= smallest(t.cost[0], t.n) * (1 + 1e-9));
    }
}

static void test_several_infeasible_limits_give_a_small_violation(void **state)
{
    struct rig r;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        double least = INFINITY, got = 0;
        struct table t;

        begin(&r, seed, 2);
        chain(&r, 3, 4, 3);
        list_all(&r, &t);
        for (int b = 0; b < 2; b++)
            r.p.limit[b] = 0.8 * smallest(t.cost[b], t.n);
        solve(&r, NULL);
        assert_false(r.r.feasible);
        for (int i = 0; i < t.n; i++) {
            double sum = 0;

            for (int b = 0; b < 2; b++)
                sum += fmax(0, t.cost[b][i] / r.p.limit[b] - 1);
            least = fmin(least, sum);
        }
        for (int b = 0; b < 2; b++)
            got += fmax(0, r.r.cost[b] / r.p.limit[b] - 1);
        assert_true(got <= least * 1.0000001);
    }
}

/* A limit of exactly the smallest cost, of the dense cost, and none. */
static void test_limits_at_the_ends(void **state)
{
    struct table t;
    struct rig r;

    (void)state;
    begin(&r, 5, 1);
    chain(&r, 3, 4, 3);
    list_all(&r, &t);
    r.p.limit[0] = smallest(t.cost[0], t.n);
    solve(&r, NULL);
    assert_true(r.r.feasible);
    r.p.limit[0] = t.cost[0][0];
    solve(&r, NULL);
    assert_true(r.r.feasible && r.r.error == 0);
    r.p.limit[0] = INFINITY;
    solve(&r, NULL);
    assert_true(r.r.feasible && r.r.optimal && r.r.error == 0);
    r.p.n_budgets = 0;
    solve(&r, NULL);
    assert_true(r.r.feasible && r.r.error == 0);
}

/* The same set twice reads the diagonal of a table; NULL tables are 0; a factor may be constant. */
static void test_tables_may_repeat_variables_or_be_missing(void **state)
{
    static const double diagonal[] = { 0, -9, -9, 1, -9, 0.5 }, price[] = { 5, -9, -9, 3, -9, 2 };
    static const int twice[] = { 0, 0 };
    struct pare_alloc_var var = { "set", 2 };
    struct pare_alloc_factor f[] = { { .n_vars = 2, .var = twice, .error = diagonal },
                                     { .n_vars = 2, .var = twice, .cost = { price } },
                                     { .n_vars = 0, .cost = { price } } };
    struct pare_alloc_problem p = { .vars = &var,
                                    .n_vars = 1,
                                    .factors = f,
                                    .n_factors = 3,
                                    .n_budgets = 1,
                                    .limit = { 9 } };
    struct pare_alloc_result r;
    int choice = -1;

    (void)state;
    assert_int_equal(pare_alloc_solve(&p, NULL, arena, &choice, &r, &err), 0);
    assert_int_equal(choice, 1);
    assert_true(r.feasible && r.optimal && r.error == 1 && r.cost[0] == 8);
    p.limit[0] = 10;
    assert_int_equal(pare_alloc_solve(&p, NULL, arena, &choice, &r, &err), 0);
    assert_int_equal(choice, 0);
    assert_true(r.cost[0] == 10);
}

static void test_results_are_reproducible(void **state)
{
    int first[MOST_VARS];
    struct rig r;

    (void)state;
    begin(&r, 7, 1);
    residual(&r, 3, 3, 8, 4);
    r.p.limit[0] = 8;
    for (int i = 0; i < 5; i++) {
        size_t before = pare_arena_bytes(arena);

        solve(&r, names[i]);
        assert_true(r.r.feasible);
        assert_int_equal(pare_arena_bytes(arena), before);
        memcpy(first, r.choice, sizeof(first));
        memset(r.choice, 1, sizeof(r.choice));
        solve(&r, names[i]);
        assert_memory_equal(first, r.choice, (size_t)r.p.n_vars * sizeof(*first));
    }
}

/* Ten sets of eight choices, every four of them in a factor: elimination would need 8^10 cells. */
static void test_wide_graphs_use_conditional_modes(void **state)
{
    double dense, cost[PARE_BUDGETS];
    struct rig r;

    (void)state;
    begin(&r, 9, 1);
    for (int i = 0; i < 10; i++)
        add_set(&r, 8);
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < i; j++) {
            double *t = cost_of(add_factor(&r, 2, (int[]){ i, j }), 0);

            for (int k = 0; k < 64; k++)
                t[k] = (1 - k / 8 / 9.0) * (1 - k % 8 / 9.0) * uniform(&r, 0.9, 1.1);
        }
    sum_all(&r, r.choice, &dense, cost);
    for (int i = 1; i < 9; i++) {
        double error;

        r.p.limit[0] = cost[0] * (0.1 + 0.09 * i);
        solve(&r, NULL);
        assert_true(r.r.feasible);
        assert_false(r.r.exact_steps || r.r.optimal);
        assert_int_equal(r.r.width, 9);
        error = r.r.error;
        solve(&r, "uniform");
        assert_true(error <= r.r.error);
    }
}

/* The rules of other tools keep the limits; none is better than what is proven to be the best. */
static void test_other_solvers_are_feasible_and_not_better(void **state)
{
    struct rig r;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        for (int budgets = 1; budgets <= 3; budgets++) {
            double dense, cost[PARE_BUDGETS], best;
            bool optimal;

            begin(&r, seed, budgets);
            residual(&r, 2, 2, 6, 4);
            sum_all(&r, r.choice, &dense, cost);
            for (int b = 0; b < budgets; b++)
                r.p.limit[b] = cost[b] * uniform(&r, 0.35, 0.7);
            solve(&r, NULL);
            assert_true(r.r.feasible);
            best = r.r.error;
            optimal = r.r.optimal;
            for (int i = 1; i < 5; i++) {
                solve(&r, names[i]);
                assert_true(r.r.feasible);
                assert_false(r.r.optimal);
                assert_true(r.r.error >= best || !optimal);
                assert_true(r.r.error >= best * 0.999);
            }
        }
}

static void test_front_falls_from_dense_to_cheapest(void **state)
{
    struct pare_alloc_result r[8];
    int choice[8 * MOST_VARS];
    struct rig x;
    struct table t;

    (void)state;
    begin(&x, 11, 2);
    chain(&x, 3, 4, 3);
    list_all(&x, &t);
    x.p.limit[0] = -1; /* not read */
    x.p.limit[1] = INFINITY;
    assert_int_equal(pare_alloc_front(&x.p, &(struct pare_alloc_front){ 0, 8, choice, r }, arena,
                                      &err),
                     0);
    for (int i = 0; i < 8; i++) {
        assert_true(r[i].feasible);
        x.p.limit[0] = t.cost[0][0] + i / 7.0 * (smallest(t.cost[0], t.n) - t.cost[0][0]);
        x.p.limit[0] *= 1 + 1e-11;
        assert_true(r[i].error <= least_error(&x, &t) * (1 + 1e-9));
        if (i)
            assert_true(r[i].error >= r[i - 1].error && r[i].cost[0] <= r[i - 1].cost[0]);
    }
    assert_true(r[0].error == 0);
    for (int v = 0; v < x.p.n_vars; v++)
        assert_int_equal(choice[v], 0);
}

static void test_invalid_problems_are_errors(void **state)
{
    static const int out_of_range[] = { 9 };
    struct pare_alloc_front front = { 0, 1, NULL, NULL };
    struct rig r;

    (void)state;
    begin(&r, 1, 1);
    chain(&r, 2, 3, 2);
    r.p.limit[0] = 1;
    assert_int_equal(pare_alloc_solve(&r.p, "magic", arena, r.choice, &r.r, &err), PARE_ECONFIG);
    assert_string_equal(err.msg, "solver 'magic' is unknown, must be "
                                 "lagrange|fastnas|halp|spdy|uniform");
    assert_int_equal(pare_alloc_front(&r.p, &front, arena, &err), PARE_ECONFIG);
    r.choice[1] = 3;
    assert_int_equal(pare_alloc_evaluate(&r.p, r.choice, arena, &r.r, &err), PARE_ECONFIG);
    error_of(&r.factor[0])[1] = NAN;
    assert_int_equal(pare_alloc_solve(&r.p, NULL, arena, r.choice, &r.r, &err), PARE_ECONFIG);
    error_of(&r.factor[0])[1] = 0;
    cost_of(&r.factor[0], 0)[1] = INFINITY;
    assert_int_equal(pare_alloc_solve(&r.p, NULL, arena, r.choice, &r.r, &err), PARE_ECONFIG);
    cost_of(&r.factor[0], 0)[1] = 0;
    r.p.limit[0] = NAN;
    assert_int_equal(pare_alloc_solve(&r.p, NULL, arena, r.choice, &r.r, &err), PARE_ECONFIG);
    r.p.limit[0] = 1;
    r.var[0].n = 0;
    assert_int_equal(pare_alloc_solve(&r.p, NULL, arena, r.choice, &r.r, &err), PARE_ECONFIG);
    r.var[0].n = 1;
    r.factor[0].var = out_of_range;
    assert_int_equal(pare_alloc_solve(&r.p, NULL, arena, r.choice, &r.r, &err), PARE_ECONFIG);
}

static void test_allocations_may_fail(void **state)
{
    int choice[3 * MOST_VARS];
    struct pare_alloc_result front[3];
    struct rig r;

    (void)state;
    begin(&r, 1, 2);
    chain(&r, 2, 3, 2);
    r.p.limit[0] = 3;
    r.p.limit[1] = 60;
    for (int i = 0; i <= 5; i++) {
        int failures = 0;

        for (int n = 1; n < 10000; n++) {
            bool reached;
            int rc;

            pare_oom_countdown = -n;
            rc = i < 5 ? pare_alloc_solve(&r.p, names[i], arena, r.choice, &r.r, &err)
                       : pare_alloc_front(&r.p, &(struct pare_alloc_front){ 0, 3, choice, front },
                                          arena, &err);
            reached = pare_oom_countdown == 0;
            pare_oom_countdown = 0;
            assert_int_equal(rc, reached ? PARE_ENOMEM : 0);
            failures += rc != 0;
            if (!reached)
                break;
        }
        assert_true(failures > 0);
    }
}

/* Seconds for a network's size; generous, because tests share the machine.  PARE_TIMES=1 prints
 * them. */
static void expect_fast(struct rig *r, const char *what, double part)
{
    double dense, cost[PARE_BUDGETS];

    memset(r->choice, 0, sizeof(r->choice));
    sum_all(r, r->choice, &dense, cost);
    for (int b = 0; b < r->p.n_budgets; b++)
        r->p.limit[b] = part * cost[b];
    for (int i = 0; i < 5; i++) {
        double begun = pare_thread_now(), seconds;

        solve(r, names[i]);
        seconds = pare_thread_now() - begun;
        if (getenv("PARE_TIMES"))
            printf("%-24s %.2f %d variables, %-8s error %.6f bound %.6f %s %.3f s\n", what, part,
                   r->p.n_vars, names[i], r->r.error, r->r.bound, r->r.optimal ? "optimal" : "",
                   seconds);
        assert_true(r->r.feasible);
        assert_true(seconds < 5);
        if (!i)
            assert_true(r->r.error - r->r.bound <= 0.03 * r->r.error);
    }
}

static void test_networks_take_less_than_a_second(void **state)
{
    struct rig r;

    (void)state;
    for (int budgets = 1; budgets <= 3; budgets += 2)
        for (double part = 0.12; part < 0.8; part *= 2) {
            begin(&r, 21, budgets);
            residual(&r, 3, 3, 8, 4); /* 20 layers, 12 sets */
            expect_fast(&r, "ResNet-20", part);
            begin(&r, 22, budgets);
            residual(&r, 7, 4, 8, 4); /* 58 layers, 36 sets */
            expect_fast(&r, "MobileNetV2", part);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_equals_brute_force_on_chains, setup, teardown),
        cmocka_unit_test_setup_teardown(test_equals_brute_force_on_residual_graphs, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_equals_brute_force_with_several_budgets, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_error_curves_need_not_be_monotone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forbidden_choices_are_avoided, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_graphs_equal_brute_force, setup, teardown),
        cmocka_unit_test_setup_teardown(test_everything_forbidden_is_infeasible, setup, teardown),
        cmocka_unit_test_setup_teardown(test_infeasible_limits_give_the_smallest_violation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_several_infeasible_limits_give_a_small_violation,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits_at_the_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tables_may_repeat_variables_or_be_missing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_results_are_reproducible, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide_graphs_use_conditional_modes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_solvers_are_feasible_and_not_better, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_front_falls_from_dense_to_cheapest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_invalid_problems_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_allocations_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(test_networks_take_less_than_a_second, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
