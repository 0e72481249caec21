/* test_optim.c - optimizers against PyTorch's trajectories, written by tools/golden_optim.py. */
#include "case_names.h"

#include <math.h>

#include "train/optim.h"

#define STEPS 20
#define MAX 40000

static struct pare_arena *arena;
static struct pare_named *list;
static int n_list;

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    list = read_cases(arena, "golden/optim.npz", &n_list);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static double element(const struct pare_tensor *t, int64_t i)
{
    return t->dtype == PARE_F64 ? ((double *)t->data)[i] : (double)pare_f32(t)[i];
}

/* A parameter of n elements that repeats the golden file's five, so that whole vectors, remainders
 * and several chunks are tested. */
static struct pare_optim_param make_param(const char *name, int64_t n)
{
    const float *start = pare_f32(find_case_array(list, n_list, "start"));
    struct pare_optim_param p = { .name = name };
    struct pare_err err;

    assert_int_equal(pare_tensor_new(arena, &p.value, PARE_F32, 1, &n, &err), 0);
    assert_int_equal(pare_tensor_new(arena, &p.grad, PARE_F32, 1, &n, &err), 0);
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&p.value)[i] = start[i % 5];
    return p;
}

static void set_grad(const struct pare_optim_param *p, int step)
{
    const float *g = pare_f32(find_case_array(list, n_list, "grads")) + step * 5;

    for (int64_t i = 0; i < p->grad.dim[0]; i++)
        pare_f32_mut(&p->grad)[i] = g[i % 5];
}

static void expect_close(const struct pare_named *want, int step, const struct pare_tensor *got,
                         int64_t first)
{
    for (int64_t i = 0; i < got->dim[0]; i++) {
        double w = element(&want->t, step * want->t.dim[1] + first + i % 5),
               g = (double)pare_f32(got)[i];

        if (!(fabs(g - w) <= 1e-5 * (1 + fabs(w))))
            fail_msg("%s: step %d, element %d: %.9g, PyTorch has %.9g", want->name, step, (int)i, g,
                     w);
    }
}

static struct pare_optim *make_optimizer(const char *text, struct pare_optim_opts *o)
{
    struct case_name c = parse_case_name(arena, text);
    const char *norm = case_take(&c, "clip_norm"), *value = case_take(&c, "clip_value");
    struct pare_optim *op;
    struct pare_err err;

    o->clip_norm = norm ? strtod(norm, NULL) : 0;
    o->clip_value = value ? strtod(value, NULL) : 0;
    assert_int_equal(pare_find_optimizer(c.name, &o->type, &err), 0);
    o->conf = case_conf(arena, &c, o->type->opts, o->type->conf_size);
    if (pare_optim_new(arena, o, &op, &err))
        fail_msg("%s: %s", text, err.msg);
    return op;
}

static void test_trajectories_match_pytorch(void **state)
{
    int seen = 0;

    (void)state;
    for (int i = 0; i < n_list; i++) {
        /* The norm is over all elements, so that only the five can be compared. */
        int64_t n = strstr(list[i].name, "clip_norm") ? 5 : i % 2 ? MAX : 64;
        struct pare_optim_param p = make_param("w", n);
        struct pare_optim_opts o = { .param = &p, .n_params = 1, .threads = 2 };
        struct pare_optim *op;
        struct pare_err err;

        if (!strchr(list[i].name, '|') || strstr(list[i].name, "|groups"))
            continue;
        op = make_optimizer(list[i].name, &o);
        for (int t = 0; t < STEPS; t++) {
            set_grad(&p, t);
            assert_int_equal(pare_optim_step(op, 0.05, &err), 0);
            expect_close(&list[i], t, &p.value, 0);
        }
        seen++;
    }
    assert_true(seen >= 30);
}

static void test_parameter_groups(void **state)
{
    static const struct pare_optim_group group[] = { { 1, -1 }, { 0.1, 0 } };
    int seen = 0;

    (void)state;
    for (int i = 0; i < n_list; i++) {
        struct pare_optim_param p[3] = { make_param("a", 33), make_param("b", 7),
                                         make_param("frozen", 5) };
        struct pare_optim_opts o = { .param = p, .n_params = 3, .group = group, .n_groups = 2 };
        struct pare_tensor before = p[2].value;
        struct pare_optim *op;
        struct pare_err err;

        if (!strstr(list[i].name, "|groups"))
            continue;
        p[1].group = 1;
        p[2].grad.data = NULL;
        op = make_optimizer(list[i].name, &o);
        for (int t = 0; t < STEPS; t++) {
            set_grad(&p[0], t);
            set_grad(&p[1], t);
            assert_int_equal(pare_optim_step(op, 0.05, &err), 0);
            expect_close(&list[i], t, &p[0].value, 0);
            expect_close(&list[i], t, &p[1].value, 5);
        }
        assert_memory_equal(before.data, pare_f32(find_case_array(list, n_list, "start")), 20);
        seen++;
    }
    assert_int_equal(seen, 2);
}

/* Results are bit-identical with any number of threads, also with clip_norm. */
static void test_threads_do_not_change_results(void **state)
{
    struct pare_optim_param p[4];

    (void)state;
    for (int k = 0; k < 4; k++) {
        struct pare_optim_opts o = { .param = &p[k], .n_params = 1, .threads = k + 1 };
        struct pare_optim *op;
        struct pare_err err;

        p[k] = make_param("w", 100003);
        op = make_optimizer("adam,weight_decay=0.1,clip_norm=3", &o);
        for (int t = 0; t < 3; t++) {
            set_grad(&p[k], t);
            assert_int_equal(pare_optim_step(op, 0.05, &err), 0);
        }
        assert_true(op->norm > 3);
        assert_memory_equal(p[0].value.data, p[k].value.data, 100003 * sizeof(float));
    }
}

/* Copying the state to a new optimizer halfway gives bit-identical results. */
static void test_state_is_transferred(void **state)
{
    static const char *const texts[] = { "sgd,momentum=0.9,dampening=0.3", "adamw",
                                         "rmsprop,centered=true,momentum=0.5" };
    static const char *const first_slot[] = { "w.momentum_buffer", "w.exp_avg", "w.square_avg" };
    static const int n_slots[] = { 1, 2, 3 };

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct pare_optim_param p = make_param("w", 77), q = make_param("w", 77);
        struct pare_optim_opts o = { .param = &p, .n_params = 1 };
        struct pare_optim *whole = make_optimizer(texts[k], &o), *half, *rest;
        struct pare_named *from, *to;
        int n, m;
        struct pare_err err;

        o.param = &q;
        half = make_optimizer(texts[k], &o);
        rest = make_optimizer(texts[k], &o);
        for (int t = 0; t < STEPS; t++) {
            set_grad(&p, t);
            set_grad(&q, t);
            assert_int_equal(pare_optim_step(whole, 0.1, &err), 0);
            if (t == 9) {
                assert_int_equal(pare_optim_state(half, arena, &from, &n, &err), 0);
                assert_int_equal(pare_optim_state(rest, arena, &to, &m, &err), 0);
                assert_int_equal(n, n_slots[k]);
                assert_int_equal(m, n);
                assert_string_equal(from[0].name, first_slot[k]);
                for (int i = 0; i < n; i++)
                    memcpy(to[i].t.data, from[i].t.data, 77 * sizeof(float));
                rest->step = half->step;
            }
            assert_int_equal(pare_optim_step(t < 9 ? half : rest, 0.1, &err), 0);
            if (t < 9)
                assert_memory_equal(p.value.data, q.value.data, 77 * sizeof(float));
        }
        assert_memory_equal(p.value.data, q.value.data, 77 * sizeof(float));
    }
}

static void test_optimizers_without_state(void **state)
{
    struct pare_optim_param p = make_param("w", 5);
    struct pare_optim_opts o = { .param = &p, .n_params = 1 };
    struct pare_named *l;
    struct pare_err err;
    int n;

    (void)state;
    assert_int_equal(pare_optim_state(make_optimizer("sgd", &o), arena, &l, &n, &err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(pare_optim_state(make_optimizer("rmsprop", &o), arena, &l, &n, &err), 0);
    assert_int_equal(n, 1);
}

static void test_wrong_parameters_are_errors(void **state)
{
    static const struct pare_optim_group bad = { -1, -1 };
    struct pare_optim_param p = make_param("conv1.weight", 5), q;
    struct pare_optim_opts o = { .param = &p, .n_params = 1, .threads = 2 };
    struct pare_optim *op = make_optimizer("sgd,clip_norm=1", &o);
    struct pare_err err;

    (void)state;
    set_grad(&p, 0);
    pare_f32_mut(&p.grad)[3] = NAN;
    assert_int_equal(pare_optim_step(op, 0.1, &err), PARE_ELIMIT);
    assert_string_equal(err.msg, "the gradient of 'conv1.weight' is not finite");
    assert_memory_equal(p.value.data, pare_f32(find_case_array(list, n_list, "start")), 20);
    assert_int_equal(op->step, 0);

    q = p;
    q.grad.dim[0] = 4;
    o.param = &q;
    assert_int_equal(pare_optim_new(arena, &o, &op, &err), PARE_ESHAPE);
    assert_string_equal(err.msg, "parameter 'conv1.weight' is (5) and its gradient (4), they must "
                                 "agree");
    q = p;
    q.value.dtype = PARE_F64;
    assert_int_equal(pare_optim_new(arena, &o, &op, &err), PARE_ESHAPE);
    q = p;
    q.group = 1;
    assert_int_equal(pare_optim_new(arena, &o, &op, &err), PARE_ECONFIG);
    q = p;
    o.group = &bad;
    o.n_groups = 1;
    assert_int_equal(pare_optim_new(arena, &o, &op, &err), PARE_ECONFIG);
    o.group = NULL;
    {
        struct case_name c = parse_case_name(arena, "sgd,nesterov=true");

        o.conf = case_conf(arena, &c, o.type->opts, o.type->conf_size);
    }
    assert_int_equal(pare_optim_new(arena, &o, &op, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "nesterov needs momentum"));
    assert_int_equal(pare_find_optimizer("adma", &o.type, &err), PARE_ECONFIG);
}

static void test_out_of_memory(void **state)
{
    struct pare_optim_param p = make_param("w", 3000);
    struct pare_optim_opts o = { .param = &p, .n_params = 1 };
    struct pare_err err;
    int rc = PARE_ENOMEM;

    (void)state;
    make_optimizer("adam", &o);
    for (int k = 1; rc && k < 50; k++) {
        struct pare_arena *a = pare_arena_new(64);
        struct pare_optim *op;

        pare_oom_countdown = k;
        rc = pare_optim_new(a, &o, &op, &err);
        pare_oom_countdown = 0;
        assert_true(!rc || rc == PARE_ENOMEM);
        pare_arena_free(a);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trajectories_match_pytorch),
        cmocka_unit_test(test_parameter_groups),
        cmocka_unit_test(test_threads_do_not_change_results),
        cmocka_unit_test(test_state_is_transferred),
        cmocka_unit_test(test_optimizers_without_state),
        cmocka_unit_test(test_wrong_parameters_are_errors),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
