/* test_speedup_verify.c - shapes and inputs with which speedup verifies the smaller model. */
#include "speedup_rig.h"

#include "speedup/speedup.h"

/* Both models draw the same random numbers, so the values computed from them are compared. */
static void test_random_numbers_are_compared(void **state)
{
    struct net n = net_new(6);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 8)), *y;
    struct speedup_result s;

    (void)state;
    y = build_node(&n.b, "MatMul", NAMES(x, WEIGHT(&n, HALF, 1, 8, 12)), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(net_relu(&n, y), WEIGHT(&n, ALL, 1, 12, 6)), NOTHING);
    y = net_add(&n, y, build_node(&n.b, "RandomNormalLike", NAMES(y), NOTHING));
    build_output(&n.b, y);
    s = net_speedup(&n);
    assert_null(s.r.discontinuous);
    assert_true(s.r.agreement < 0);
    assert_true(s.r.max_rel < 1e-4);
    speedup_free(&s);
}

/* A body with a window that is larger than the first size tried.  If `late`, the shape depends on
 * data, so only a run shows it. */
static void check_window_in_body(bool late, const char *shape)
{
    struct net n = net_new(7);
    struct build *then = pare_alloc(pool, 1, sizeof(*then));
    struct build *other = pare_alloc(pool, 1, sizeof(*other));
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, -1)), *y, *at;
    const char *sr = build_input(&n.b, PARE_I64, 0, NULL), *cond;
    struct speedup_result s;

    cond = build_node(&n.b, "Equal",
                      NAMES(sr, build_const(&n.b, PARE_I64, 0, NULL, &(int64_t){ 16000 })),
                      NOTHING);
    then->prefix = "t";
    other->prefix = "e";
    y = x;
    if (late) { /* all of x, gathered by its positions */
        at = build_node(then, "ReduceMax", NAMES(x),
                        CAT(at_ints("axes", INTS(0, 1)), at_int("keepdims", 0)));
        at = build_node(then, "NonZero", NAMES(build_node(then, "Exp", NAMES(at), NOTHING)),
                        NOTHING);
        at = build_node(then, "Squeeze", NAMES(at, build_ints(then, INTS(0))), NOTHING);
        y = build_node(then, "Gather", NAMES(x, at), at_int("axis", 2));
    }
    y = build_node(then, "Conv", NAMES(y, WEIGHT(&n, ALL, 0, 2, 3, 2)),
                   at_ints("dilations", INTS(300)));
    build_output(then, build_node(then, "ReduceMax", NAMES(y),
                                  CAT(at_ints("axes", INTS(1, 2)), at_int("keepdims", 0))));
    build_output(other, build_node(other, "ReduceMax", NAMES(x),
                                   CAT(at_ints("axes", INTS(1, 2)), at_int("keepdims", 0))));
    y = build_node(&n.b, "If", NAMES(cond),
                   CAT(at_graph("then_branch", then), at_graph("else_branch", other)));
    build_output(&n.b, y);
    s = net_speedup(&n);
    assert_string_equal(s.r.shapes[0], shape);
    speedup_free(&s);
}

static void test_windows_in_bodies(void **state)
{
    (void)state;
    check_window_in_body(false, "v0 (1, 3, 512)");
    check_window_in_body(true, "v0 (1, 3, 512)");
}

/* If shapes depend on data, small sizes are compared, since a run at large sizes may be slow. */
static void test_small_second_shape(void **state)
{
    struct net n = net_new(8);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1)), *at, *y;
    struct speedup_result s;

    (void)state;
    at = build_node(&n.b, "NonZero", NAMES(net_relu(&n, x)), NOTHING);
    at = build_node(&n.b, "Transpose", NAMES(at), NOTHING);
    y = build_node(&n.b, "GatherND", NAMES(x, at), NOTHING);
    build_output(&n.b, build_node(&n.b, "Exp", NAMES(y), NOTHING));
    s = net_speedup(&n);
    assert_string_equal(s.r.shapes[0], "v0 (1, 16)");
    assert_string_equal(s.r.shapes[1], "v0 (2, 9)");
    speedup_free(&s);
}

/* Generated scales are in [0.5, 1); other inputs may be negative. */
static void test_scales_are_positive(void **state)
{
    struct net n = net_new(9);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 5)), *scales;
    struct pare_sample sample = { .arena = pool };
    struct pare_tensor in[2];
    struct pare_model *m;
    struct pare_err err;
    bool negative = false;

    (void)state;
    scales = build_input(&n.b, PARE_F32, INTS(3));
    build_output(&n.b, net_add(&n, x, build_node(&n.b, "ReduceMax", NAMES(scales), NOTHING)));
    m = build_model(&n.b);
    sample.n = pare_model_inputs(m, &sample.io);
    sample.in = in;
    sample.given = (bool[]){ false, false };
    in[0] = build_tensor(PARE_F32, INTS(20, 5));
    in[1] = build_tensor(PARE_F32, INTS(3));
    assert_int_equal(pare_sample_fill(&sample, m->graph, 1, &err), 0);
    for (int i = 0; i < 100; i++)
        negative |= pare_f32(&in[0])[i] < 0;
    assert_true(negative);
    for (int i = 0; i < 3; i++)
        assert_true(pare_f32(&in[1])[i] >= 0.5f && pare_f32(&in[1])[i] < 1);
    pare_model_free(m);
}

/* The outputs are small differences of large numbers: rounding errors that are allowed for, since
 * the masked model has them as well when it sums in another order. */
static void test_rounding_noise_is_measured(void **state)
{
    struct net n = net_new(10);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 64)), *h, *bias, *y[2];
    struct pare_tensor w = net_random(&n, 0, 1, INTS(512, 16));
    struct pare_speedup_opts strict = { .threads = 1, .tolerance = 1e-4 };
    struct pare_speedup_report r;
    struct speedup_result s;
    struct pare_model *small;
    struct pare_err err;

    (void)state;
    bias = net_bias(&n, ALL, 16);
    h = build_node(&n.b, "Gemm", NAMES(x, WEIGHT(&n, HALF, 1, 64, 512), net_bias(&n, ALL, 512)),
                   NOTHING);
    h = net_relu(&n, h);
    for (int k = 0; k < 2; k++) {
        y[k] = build_node(&n.b, "Gemm",
                          NAMES(h, build_floats(&n.b, w.rank, w.dim, pare_f32(&w)), bias), NOTHING);
        for (int64_t i = 0; i < pare_numel(&w); i++)
            pare_f32_mut(&w)[i] += (float)(i % 7) * 1e-4f;
    }
    build_output(&n.b, build_node(&n.b, "Sub", NAMES(y[0], y[1]), NOTHING));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 256);
    assert_true(s.r.max_rel <= 1e-4 || s.r.max_rel <= 4 * s.r.noise);
    assert_true(s.r.max_rel < 1e-3);
    if (s.r.noise > 0) { /* a tolerance that is given is not raised */
        assert_int_equal(pare_speedup(s.before, &strict, pool, &small, &r, &err),
                         PARE_EUNSUPPORTED);
        assert_non_null(strstr(err.msg, "differ by"));
    }
    speedup_free(&s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_random_numbers_are_compared), T(test_windows_in_bodies),
        T(test_small_second_shape),          T(test_scales_are_positive),
        T(test_rounding_noise_is_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
