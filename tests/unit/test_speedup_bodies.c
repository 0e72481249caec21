/* test_speedup_bodies.c - channels of layers inside the bodies of If, Loop and Scan are removed;
 * what crosses the border of a body is kept, with its reason. */
#include "speedup_rig.h"

#include <math.h>

/* A network for a body; prefix: of its names. */
static struct net body_net(uint64_t seed, const char *prefix)
{
    struct net n = net_new(seed);

    n.b.prefix = prefix;
    build_put(&n.b, text(2, prefix));
    return n;
}

static const struct pare_speedup_layer *layer(const struct pare_speedup_report *r, const char *part)
{
    for (int i = 0; i < r->n_layers; i++)
        if (strstr(r->layer[i].name, part))
            return &r->layer[i];
    fail_msg("the report has no layer '%s'", part);
    return NULL;
}

/* Layer i of the report, in its order, must have out[i] channels left. */
static void expect_channels(const struct speedup_result *s, int n, const int64_t *out)
{
    for (int i = 0; i < n; i++)
        if (speedup_out_channels(s, i) != out[i])
            fail_msg("layer %d (%s) has %lld channels left, expected %lld; %s", i,
                     s->r.layer[i].name, (long long)speedup_out_channels(s, i), (long long)out[i],
                     s->r.layer[i].why ? s->r.layer[i].why : "no reason");
}
#define CHANNELS(s, ...) expect_channels(s, INTS(__VA_ARGS__))

/* Both models give the same for these inputs. */
static void expect_same(const struct speedup_result *s, const struct pare_tensor *in, int n_in)
{
    const struct pare_model *const m[2] = { s->before, s->after };
    struct pare_plan_opts o = { .threads = 1, .in = in, .n_in = n_in };
    struct pare_plan *p[2];
    struct pare_tensor y[2];
    struct pare_err err;

    for (int i = 0; i < 2; i++)
        if (pare_plan_new(m[i], &o, &p[i], &err) || pare_plan_run(p[i], in, n_in, &y[i], 1, &err))
            fail_msg("model %d: %s", i, err.msg);
    assert_true(pare_same_shape(&y[0], &y[1]));
    for (int64_t i = 0; i < pare_numel(&y[0]); i++)
        assert_true(fabsf(pare_f32(&y[0])[i] - pare_f32(&y[1])[i]) < 1e-4f);
    for (int i = 0; i < 2; i++)
        pare_plan_free(p[i]);
}

static struct pare_tensor random_tensor(uint64_t seed, int rank, const int64_t *dim)
{
    struct net n = net_new(seed);

    return net_random(&n, 0, 1, rank, dim);
}

/* ---- If -------------------------------------------------------------------------------------- */

/* Convolution, normalization, convolution with `out` outputs that end the body. */
static void fill_branch(struct net *n, const char *x, int which, int64_t C)
{
    x = net_block(n, x, which, 3, C);
    build_output(&n->b, net_conv(n, x, HALF, C, 4, 1));
}

/* y = layer(c ? then(x) : else(x)) */
static struct net if_network(void)
{
    struct net n = net_new(1), then = body_net(2, "t_"), other = body_net(3, "e_");
    const char *c = build_input(&n.b, PARE_BOOL, 0, NULL);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, 9, 8)), *y;

    fill_branch(&then, x, HALF, 16);
    fill_branch(&other, x, FRONT, 12);
    y = build_node(&n.b, "If", NAMES(c),
                   CAT(at_graph("then_branch", &then.b), at_graph("else_branch", &other.b)));
    build_output(&n.b, net_conv(&n, y, ALL, 4, 5, 1));
    return n;
}

static void test_layers_in_branches_shrink(void **state)
{
    struct net n = if_network();
    struct speedup_result s = net_speedup(&n);
    bool c = false;
    struct pare_tensor in[2] = { { .dtype = PARE_BOOL, .data = &c },
                                 random_tensor(5, INTS(3, 3, 9, 8)) };

    (void)state;
    CHANNELS(&s, 8, 4, 6, 4, 5);
    assert_string_equal(s.r.layer[2].why, "the body's output");
    assert_string_equal(s.r.layer[5].why, "the body's output");
    assert_int_equal(s.r.layer[2].empty, 2);
    assert_true(s.r.params_left < s.r.params * 6 / 10);
    expect_same(&s, in, 2);
    c = true;
    expect_same(&s, in, 2);
    speedup_free(&s);
}

/* The smaller file is read again, and its layers have the same names. */
static void test_smaller_bodies_are_saved(void **state)
{
    struct net n = if_network();
    struct speedup_result s = net_speedup(&n), again;
    struct pare_speedup_opts o = { .threads = 1 };
    const struct pare_model_layer *l;
    struct pare_err err;
    void *bytes;
    size_t len;
    int count;

    (void)state;
    if (pare_model_pack(s.after, pool, &bytes, &len, &err) ||
        pare_model_parse(bytes, len, NULL, &again.before, &err))
        fail_msg("%s", err.msg);
    if (pare_model_list_layers(again.before, pool, &l, &count, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(count, s.r.n_layers);
    for (int i = 0; i < count; i++)
        assert_string_equal(l[i].name, s.r.layer[i].name);
    if (pare_speedup(again.before, &o, pool, &again.after, &again.r, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(again.r.params_left, s.r.params_left);
    speedup_free(&again);
    speedup_free(&s);
}

/* A weight that both branches read, and other values of one name in each of them. */
static void test_branches_that_share_weights(void **state)
{
    struct net n = net_new(1);
    const char *c = build_input(&n.b, PARE_BOOL, 0, NULL);
    const char *x = build_input(&n.b, PARE_F32, INTS(2, 12)), *y;
    const char *w = WEIGHT(&n, HALF, 0, 20, 12), *b = net_bias(&n, HALF, 20);
    struct speedup_result s;
    bool truth = true;
    struct pare_tensor in[2] = { { .dtype = PARE_BOOL, .data = &truth },
                                 random_tensor(5, INTS(2, 12)) };
    struct bin body[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct net one = body_net(7 + (uint64_t)i, "same_");
        const char *h = build_node(&one.b, "Gemm", NAMES(x, w, b), at_int("transB", 1));

        build_output(&one.b,
                     net_gemm(&one, build_node(&one.b, i ? "Sigmoid" : "Tanh", NAMES(h), NOTHING),
                              ALL, 20, 6));
        body[i] = at_graph(i ? "else_branch" : "then_branch", &one.b);
    }
    y = build_node(&n.b, "If", NAMES(c), CAT(body[0], body[1]));
    build_output(&n.b, net_gemm(&n, y, ALL, 6, 2));
    s = net_speedup(&n);
    CHANNELS(&s, 10, 6, 10, 6, 2);
    /* the smaller weight is shared as well: 12 * 10 + 10, two of 10 * 6 + 6, and 6 * 2 + 2 */
    assert_int_equal(s.r.params_left, 130 + 2 * 66 + 14);
    expect_same(&s, in, 2);
    truth = false;
    expect_same(&s, in, 2);
    speedup_free(&s);
}

/* A layer of the main graph whose output a body captures keeps its channels. */
static void test_captured_values_are_kept(void **state)
{
    struct net n = net_new(1), then = body_net(2, "t_"), other = body_net(3, "e_");
    const char *c = build_input(&n.b, PARE_BOOL, 0, NULL);
    const char *x = net_image(&n), *h = net_relu(&n, net_conv(&n, x, HALF, 3, 8, 3));
    struct speedup_result s;

    (void)state;
    build_output(&then.b, net_conv(&then, h, ALL, 8, 4, 1));
    build_output(&other.b, net_conv(&other, net_block(&other, h, HALF, 8, 10), ALL, 10, 4, 1));
    build_output(&n.b, build_node(&n.b, "If", NAMES(c),
                                  CAT(at_graph("then_branch", &then.b),
                                      at_graph("else_branch", &other.b))));
    s = net_speedup(&n);
    CHANNELS(&s, 8, 4, 5, 4);
    assert_non_null(strstr(s.r.layer[0].why, "the border of the body of If"));
    speedup_free(&s);
}

/* min(T, 4) is 4 at all sizes of the analysis, but a body that captures it must not rely on it. */
static void test_captured_sizes_are_not_constant(void **state)
{
    struct net n = net_new(1), then = body_net(2, "t_"), other = body_net(3, "e_");
    const char *c = build_input(&n.b, PARE_BOOL, 0, NULL);
    const char *x = build_input(&n.b, PARE_F32, INTS(1, -1, 12)), *k, *h, *shape;
    struct speedup_result s;
    bool truth = true;
    struct pare_tensor in[2] = { { .dtype = PARE_BOOL, .data = &truth },
                                 random_tensor(5, INTS(1, 3, 12)) };

    (void)state;
    k = build_node(&n.b, "Shape", NAMES(x), NOTHING);
    k = build_node(&n.b, "Gather", NAMES(k, build_ints(&n.b, INTS(1))), NOTHING);
    k = build_node(&n.b, "Min", NAMES(k, build_ints(&n.b, INTS(4))), NOTHING);
    h = net_relu(&then,
                 build_node(&then.b, "MatMul", NAMES(x, WEIGHT(&then, HALF, 1, 12, 20)), NOTHING));
    h = build_node(&then.b, "Slice",
                   NAMES(h, build_ints(&then.b, INTS(0)), k, build_ints(&then.b, INTS(1))),
                   NOTHING);
    shape = build_node(&then.b, "Concat",
                       NAMES(build_ints(&then.b, INTS(1)), k, build_ints(&then.b, INTS(20))),
                       at_int("axis", 0));
    h = build_node(&then.b, "Reshape", NAMES(h, shape), NOTHING);
    build_output(&then.b,
                 build_node(&then.b, "MatMul", NAMES(h, WEIGHT(&then, ALL, 1, 20, 5)), NOTHING));
    build_output(&other.b,
                 build_node(&other.b, "MatMul", NAMES(x, WEIGHT(&other, ALL, 1, 12, 5)), NOTHING));
    build_output(&n.b, build_node(&n.b, "If", NAMES(c),
                                  CAT(at_graph("then_branch", &then.b),
                                      at_graph("else_branch", &other.b))));
    s = net_speedup_with(&n, &(struct pare_speedup_opts){ .threads = 1, .unverified = true });
    expect_same(&s, in, 2);
    speedup_free(&s);
}

/* ---- Loop and Scan --------------------------------------------------------------------------- */

/* h = h + layers(h), as often as the input says; a nested If in every second case. */
static struct net loop_network(bool nested)
{
    struct net n = net_new(1), body = body_net(2, "b_");
    const char *count = build_input(&n.b, PARE_I64, 0, NULL);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 12)), *state, *h, *in[3];
    const char *i = build_input(&body.b, PARE_I64, 0, NULL);
    const char *more = build_input(&body.b, PARE_BOOL, 0, NULL), *f;

    state = build_input(&body.b, PARE_F32, INTS(-1, 12));
    h = net_relu(&body, net_gemm(&body, state, HALF, 12, 20));
    h = net_relu(&body, net_gemm(&body, h, FRONT, 20, 16));
    if (nested) {
        struct net then = body_net(4, "bt_"), other = body_net(5, "be_");

        build_output(&then.b, net_gemm(&then, net_relu(&then, net_gemm(&then, h, HALF, 16, 30)),
                                       ALL, 30, 16));
        build_output(&other.b, net_relu(&other, h));
        f = build_node(&body.b, "Cast", NAMES(i), at_int("to", PARE_BOOL));
        h = build_node(&body.b, "If", NAMES(f),
                       CAT(at_graph("then_branch", &then.b), at_graph("else_branch", &other.b)));
    }
    h = build_node(&body.b, "Tanh", NAMES(net_gemm(&body, h, HALF, 16, 12)), NOTHING);
    build_output(&body.b, build_node(&body.b, "Identity", NAMES(more), NOTHING));
    build_output(&body.b, net_add(&body, state, h));
    in[0] = count;
    in[1] = "";
    in[2] = net_gemm(&n, x, ALL, 12, 12);
    build_node_outs(&n.b, "Loop", 3, in, at_graph("body", &body.b), 1, &h);
    build_output(&n.b, h);
    return n;
}

static void test_layers_in_a_loop_shrink(void **state)
{
    struct net n = loop_network(false);
    struct speedup_result s = net_speedup(&n);
    int64_t count = 3;
    struct pare_tensor in[2] = { { .dtype = PARE_I64, .data = &count },
                                 random_tensor(5, INTS(5, 12)) };

    (void)state;
    CHANNELS(&s, 12, 10, 8, 12);
    assert_non_null(strstr(layer(&s.r, "/body/b_")->name, "/body/b_"));
    assert_string_equal(s.r.layer[3].why, "the body's input"); /* added to the state */
    expect_same(&s, in, 2);
    count = 0;
    expect_same(&s, in, 2);
    speedup_free(&s);
}

static void test_nested_bodies_shrink(void **state)
{
    struct net n = loop_network(true);
    struct speedup_result s = net_speedup(&n);
    int64_t count = 4;
    struct pare_tensor in[2] = { { .dtype = PARE_I64, .data = &count },
                                 random_tensor(5, INTS(2, 12)) };

    (void)state;
    /* the value that the inner bodies capture keeps 16 channels */
    CHANNELS(&s, 12, 10, 16, 15, 16, 12);
    expect_same(&s, in, 2);
    speedup_free(&s);
}

/* state = tanh(layers(state + slice)) over the first axis. */
static void test_layers_in_a_scan_shrink(void **state)
{
    struct net n = net_new(1), body = body_net(2, "b_");
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 2, 12)), *h, *in[2], *out[2];
    const char *s0 = build_input(&body.b, PARE_F32, INTS(2, 12));
    const char *slice = build_input(&body.b, PARE_F32, INTS(2, 12));
    struct speedup_result s;
    struct pare_tensor x5 = random_tensor(5, INTS(5, 2, 12));

    (void)state;
    h = net_relu(&body, net_gemm(&body, net_add(&body, s0, slice), HALF, 12, 20));
    h = build_node(&body.b, "Tanh", NAMES(net_gemm(&body, h, ALL, 20, 12)), NOTHING);
    build_output(&body.b, h);
    build_output(&body.b, build_node(&body.b, "Neg", NAMES(h), NOTHING));
    in[0] = CONST(&n, 0, 1, 2, 12);
    in[1] = x;
    build_node_outs(&n.b, "Scan", 2, in,
                    CAT(at_graph("body", &body.b), at_int("num_scan_inputs", 1)), 2, out);
    build_output(&n.b, out[1]);
    s = net_speedup(&n);
    CHANNELS(&s, 10, 12);
    expect_same(&s, &x5, 1);
    speedup_free(&s);
}

/* ---- pruning --------------------------------------------------------------------------------- */

/* A residual block in a branch: both convolutions lose the same channels. */
static void test_dependency_groups_in_a_branch(void **state)
{
    const struct pare_prune_opts o = { .pruner = "l1",
                                       .sparsity = 0.5,
                                       .settings = "mode=dependency_aware" };
    struct net n = net_new(1), then = body_net(2, "t_"), other = body_net(3, "e_");
    const char *c = build_input(&n.b, PARE_BOOL, 0, NULL), *x = net_image(&n), *h;
    struct pare_speedup_opts so = { .threads = 1 };
    struct pare_prune_report r;
    struct pare_model *m;
    struct speedup_result s;
    struct pare_err err;

    (void)state;
    h = net_conv(&then, x, ALL, 3, 16, 3);
    h = net_relu(&then, net_add(&then, h, net_conv(&then, net_relu(&then, h), ALL, 16, 16, 3)));
    build_output(&then.b, net_conv(&then, h, ALL, 16, 4, 1));
    build_output(&other.b, net_conv(&other, x, ALL, 3, 4, 1));
    build_output(&n.b, build_node(&n.b, "If", NAMES(c),
                                  CAT(at_graph("then_branch", &then.b),
                                      at_graph("else_branch", &other.b))));
    m = build_model(&n.b);
    if (pare_prune(m, &o, &s.before, &r, &err) ||
        pare_speedup(s.before, &so, pool, &s.after, &s.r, &err))
        fail_msg("%s", err.msg);
    CHANNELS(&s, 8, 8, 4, 4);
    /* the last layers make the model's output: no class is masked */
    assert_int_equal(s.r.layer[2].empty, 0);
    assert_int_equal(s.r.layer[3].empty, 0);
    speedup_free(&s);
    pare_model_free(m);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* A body whose state grows has no shapes: it is kept, with the reason. */
static void test_body_without_shapes_is_kept(void **state)
{
    struct net n = net_new(1), body = body_net(2, "b_");
    const char *x = build_input(&n.b, PARE_F32, INTS(2, 12)), *grown, *h, *in[3], *out;
    const char *more, *s0;
    struct speedup_result s;
    int64_t three = 3;

    (void)state;
    build_input(&body.b, PARE_I64, 0, NULL);
    more = build_input(&body.b, PARE_BOOL, 0, NULL);
    s0 = build_input(&body.b, PARE_F32, -1, NULL);
    h = net_gemm(&body, net_relu(&body, net_gemm(&body, s0, HALF, 12, 20)), ALL, 20, 12);
    grown = build_node(&body.b, "Concat", NAMES(s0, h), at_int("axis", 0));
    build_output(&body.b, build_node(&body.b, "Identity", NAMES(more), NOTHING));
    build_output(&body.b, grown);
    in[0] = build_const(&n.b, PARE_I64, 0, NULL, &three);
    in[1] = "";
    in[2] = x;
    build_node_outs(&n.b, "Loop", 3, in, at_graph("body", &body.b), 1, &out);
    build_output(&n.b, out);
    s = net_speedup(&n);
    assert_int_equal(s.r.params_left, s.r.params);
    assert_non_null(s.r.layer[0].why);
    assert_non_null(strstr(s.r.layer[0].why, "is kept: "));
    speedup_free(&s);
}

/* Every allocation fails once: the error says so, and nothing leaks. */
static void test_no_memory(void **state)
{
    struct net n = if_network();
    struct pare_model *m = build_model(&n.b), *small;
    struct pare_speedup_opts o = { .threads = 1, .unverified = true };
    struct pare_speedup_report r;
    struct pare_err err;
    int rc = PARE_ENOMEM;

    (void)state;
    for (int i = 1; rc; i++) {
        struct pare_mark mark = pare_mark(pool);

        pare_oom_countdown = i;
        rc = pare_speedup(m, &o, pool, &small, &r, &err);
        pare_oom_countdown = 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: %s", i, err.msg);
        if (rc)
            pare_reset(pool, mark);
    }
    assert_true(r.params_left < r.params);
    pare_model_free(small);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_in_branches_shrink),
        cmocka_unit_test(test_smaller_bodies_are_saved),
        cmocka_unit_test(test_branches_that_share_weights),
        cmocka_unit_test(test_captured_values_are_kept),
        cmocka_unit_test(test_captured_sizes_are_not_constant),
        cmocka_unit_test(test_layers_in_a_loop_shrink),
        cmocka_unit_test(test_nested_bodies_shrink),
        cmocka_unit_test(test_layers_in_a_scan_shrink),
        cmocka_unit_test(test_dependency_groups_in_a_branch),
        cmocka_unit_test(test_body_without_shapes_is_kept),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
