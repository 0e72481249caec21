/* test_matmul_transposed.c - a Transpose of the second operand is part of a MatMul's step, if it
 * exchanges the last two axes and nothing else reads it. */
#include <math.h>

#include "make_model.h"

#include "base/rng.h"
#include "plan/plan.h"

static struct pare_rng rng;

struct net {
    struct build b;
    struct pare_tensor in[2];
    const char *x[2];
};

static struct net start_net(int rank, const int64_t *a, const int64_t *b)
{
    struct net n = { .b = { .opset = 18 } };

    for (int k = 0; k < 2; k++) {
        n.in[k] = build_tensor(PARE_F32, rank, k ? b : a);
        for (int64_t i = 0; i < pare_numel(&n.in[k]); i++)
            pare_f32_mut(&n.in[k])[i] = (float)pare_rng_normal(&rng);
        n.x[k] = build_input(&n.b, PARE_F32, rank, k ? b : a);
    }
    return n;
}

/* Runs the network; returns the number of Transposes that are steps. */
static int run_net(const struct net *n, const struct pare_model *m, bool reference, int threads,
                   struct pare_tensor *y)
{
    struct pare_plan_opts o = { .reference = reference, .threads = threads };
    struct pare_plan *p;
    struct pare_tensor out[2];
    struct pare_err err;
    int steps = 0;

    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p, &err) ||
        pare_plan_execute(p, n->in, out, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < p->n_steps; i++)
        steps += !strcmp(p->step[i]->kernel->name, "transpose_tiles");
    *y = build_copy(&out[0]);
    pare_plan_free(p);
    return steps;
}

/* Compares with the reference; `transposes` steps of their own are expected. */
static void check_net(struct net *n, const char *y, int transposes)
{
    struct pare_model *m;
    struct pare_tensor want, got;

    build_output(&n->b, y);
    m = build_model(&n->b);
    run_net(n, m, true, 1, &want);
    for (int threads = 1; threads <= 2; threads++) {
        assert_int_equal(run_net(n, m, false, threads, &got), transposes);
        assert_true(pare_same_shape(&got, &want));
        for (int64_t i = 0; i < pare_numel(&want); i++)
            assert_true(fabs(pare_get(&got, i) - pare_get(&want, i)) <= 1e-4);
    }
    pare_model_free(m);
}

static void test_fused(void **state)
{
    static const int64_t size[][3] = { { 1, 7, 64 }, { 1, 150, 64 }, { 5, 3, 2 }, { 33, 40, 17 } };

    (void)state;
    pare_rng_init(&rng, 5);
    for (int i = 0; i < 4; i++) {
        int64_t a[4] = { 2, 3, size[i][0], size[i][2] },
                b[4] = { 2, i % 2 ? 1 : 3, size[i][1], size[i][2] };
        struct net n = start_net(4, a, b);
        const char *t = build_node(&n.b, "Transpose", NAMES(n.x[1]),
                                   at_ints("perm", INTS(0, 1, 3, 2)));

        check_net(&n, build_node(&n.b, "MatMul", NAMES(n.x[0], t), NOTHING), 0);
    }
}

/* Transposes that move other axes, and results that others read, are computed. */
static void test_not_fused(void **state)
{
    struct net n;
    const char *t, *y;

    (void)state;
    pare_rng_init(&rng, 6);
    n = start_net(INTS(2, 3, 4, 5), (int64_t[]){ 2, 5, 3, 6 });
    t = build_node(&n.b, "Transpose", NAMES(n.x[1]), at_ints("perm", INTS(0, 2, 1, 3)));
    check_net(&n, build_node(&n.b, "MatMul", NAMES(n.x[0], t), NOTHING), 1);

    n = start_net(INTS(2, 6, 6), (int64_t[]){ 2, 6, 6 });
    t = build_node(&n.b, "Transpose", NAMES(n.x[1]), at_ints("perm", INTS(0, 2, 1)));
    y = build_node(&n.b, "MatMul", NAMES(n.x[0], t), NOTHING);
    check_net(&n, build_node(&n.b, "Add", NAMES(y, t), NOTHING), 1);

    n = start_net(INTS(2, 6, 6), (int64_t[]){ 2, 6, 6 });
    t = build_node(&n.b, "Transpose", NAMES(n.x[1]), at_ints("perm", INTS(0, 2, 1)));
    check_net(&n, build_node(&n.b, "MatMul", NAMES(t, n.x[0]), NOTHING), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fused, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_not_fused, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
