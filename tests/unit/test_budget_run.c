/* test_budget_run.c - a search to a budget: what a state of an interrupted one belongs to, and the
 * confidence of bounds that choose among several models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pare/budget.h>
#include <pare/train.h>

#include "base/arena.h"
#include "search/budget_run.h"
#include "train/paired_bound.h"

#define N 40

struct rig {
    float x[N * 64];
    int64_t y[N];
    struct pare_model *model;
    struct pare_data *data;
    struct pare_arena *arena;
    struct pare_err err;
};

static void open_data(struct rig *r)
{
    struct pare_input in = { "input", { PARE_F32, 4, { N, 1, 8, 8 }, r->x } };
    struct pare_tensor y = { PARE_I64, 1, { N }, r->y };
    struct pare_arrays a = { .size = sizeof(a),
                             .n = N,
                             .input = &in,
                             .n_inputs = 1,
                             .y = &y,
                             .ordered = true };

    pare_data_free(r->data);
    assert_int_equal(pare_data_from_arrays(&a, &r->data, &r->err), 0);
}

static void open_rig(struct rig *r)
{
    const int64_t chw[] = { 1, 8, 8 };

    memset(r, 0, sizeof(*r));
    for (int i = 0; i < N * 64; i++)
        r->x[i] = (float)(i * 7 % 13) / 13;
    for (int i = 0; i < N; i++)
        r->y[i] = i % 10;
    assert_int_equal(pare_model_new("lenet", chw, 10, 1, &r->model, &r->err), 0);
    r->arena = pare_arena_new(1 << 16);
    open_data(r);
}

static void close_rig(struct rig *r)
{
    pare_data_free(r->data);
    pare_model_free(r->model);
    pare_arena_free(r->arena);
}

/* Resume a search; NULL: the state is taken, else the error. */
static const char *resume(struct rig *r, struct pare_compress_budget_opts *o)
{
    struct pare_budget_search s = { .o = o, .arena = r->arena, .model = r->model };

    o->data = r->data;
    return pare_budget_resume(&s, &r->err) ? r->err.msg : NULL;
}

static void expect_other(const char *error)
{
    assert_non_null(error);
    assert_non_null(strstr(error, "another model, data or settings"));
}

static void test_state_of_other_data_or_options_is_refused(void **state)
{
    char folder[] = "/tmp/pare-test-budget-XXXXXX", longer[400];
    struct pare_compress_budget_opts o = { .budget = "macs=0.5", .runner = "ort" };
    struct rig r;

    (void)state;
    assert_non_null(mkdtemp(folder));
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    o.work = folder;
    o.train = longer;
    open_rig(&r);
    assert_null(resume(&r, &o));
    o.resume = true;
    assert_null(resume(&r, &o));
    r.x[5] = 3;
    open_data(&r);
    expect_other(resume(&r, &o));
    r.x[5] = (float)(5 * 7 % 13) / 13;
    r.y[7] = 1;
    open_data(&r);
    expect_other(resume(&r, &o));
    r.y[7] = 7;
    open_data(&r);
    assert_null(resume(&r, &o));
    longer[sizeof(longer) - 2] = 'y';
    expect_other(resume(&r, &o));
    longer[sizeof(longer) - 2] = 'x';
    o.runner = NULL;
    expect_other(resume(&r, &o));
    pare_budget_work_remove(folder);
    close_rig(&r);
}

static void test_bounds_that_choose_among_models_hold_together(void **state)
{
    struct pare_compress_budget_opts o = { .max_drop = 1, .confidence = 0.9 };
    struct pare_pairs none = { N, 0, 0 };
    struct pare_budget_run w = { .accuracy = 1 };
    struct pare_paired p;
    struct rig r;

    (void)state;
    open_rig(&r);
    w.s =
        (struct pare_budget_search){ .o = &o, .arena = r.arena, .model = r.model, .held = r.data };
    assert_int_equal(pare_budget_pairs(&w, r.model, &p, &r.err), 0);
    assert_int_equal(p.n, N);
    assert_true(fabs(p.bound - pare_pairs_upper(&none, 0.1 / 6)) < 1e-9);
    o.finetune = 1;
    assert_int_equal(pare_budget_pairs(&w, r.model, &p, &r.err), 0);
    assert_true(fabs(p.bound - pare_pairs_upper(&none, 0.1 / 3)) < 1e-9);
    o.budget = "macs=0.5"; /* one model */
    assert_int_equal(pare_budget_pairs(&w, r.model, &p, &r.err), 0);
    assert_true(fabs(p.bound - pare_pairs_upper(&none, 0.1)) < 1e-9);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_of_other_data_or_options_is_refused),
        cmocka_unit_test(test_bounds_that_choose_among_models_hold_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
