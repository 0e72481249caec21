/* test_speedup_constant_layers.c - speedup removes constant layers; constants that exporters share
 * do not tie layers. */
#include "speedup_rig.h"

#include "prune/default_rules.h"

/* Two convolutions of x, of C channels; `first` and `second` have weights. */
static const char *add_branch(struct net *n, const char *x, int first, int second, int64_t C)
{
    const char *y = net_block(n, x, first, C, C);

    return net_bn(n, net_conv(n, y, second, C, C, 3), C);
}

static int count_nodes(const struct speedup_result *s, const char *type)
{
    const struct pare_graph *g = s->after->graph;
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        n += !strcmp(g->node[i]->type, type);
    return n;
}

/* The branch's last convolution is masked: the result of its normalization is added, one
 * number per channel. */
static void test_constant_branch_of_residual(void **state)
{
    struct net n = net_new(1);
    const char *x = net_block(&n, net_image(&n), ALL, 3, 8);
    struct speedup_result s;

    (void)state;
    x = net_relu(&n, net_add(&n, x, add_branch(&n, x, ALL, NONE, 8)));
    build_output(&n.b, net_conv(&n, x, ALL, 8, 4, 3));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 8);
    assert_int_equal(speedup_out_channels(&s, 1), 0);
    assert_int_equal(speedup_out_channels(&s, 2), 0);
    assert_int_equal(speedup_out_channels(&s, 3), 4);
    assert_int_equal(count_nodes(&s, "Conv"), 2);
    assert_int_equal(count_nodes(&s, "BatchNormalization"), 1);
    assert_int_equal(count_nodes(&s, "Add"), 1);
    speedup_free(&s);
}

/* The constant is 0: the Add is removed, too. */
static void test_zero_branch_of_residual(void **state)
{
    struct net n = net_new(2);
    const char *x = net_block(&n, net_image(&n), ALL, 3, 8), *y;
    struct speedup_result s;

    (void)state;
    n.zero_bias = true;
    y = net_conv(&n, net_block(&n, x, ALL, 8, 8), NONE, 8, 8, 3);
    x = net_relu(&n, net_add(&n, y, x));
    build_output(&n.b, net_conv(&n, x, ALL, 8, 4, 3));
    s = net_speedup(&n);
    assert_int_equal(count_nodes(&s, "Conv"), 2);
    assert_int_equal(count_nodes(&s, "Add"), 0);
    speedup_free(&s);
}

/* The sum is an output of the model, which keeps its name. */
static void test_residual_that_is_an_output(void **state)
{
    struct net n = net_new(3);
    const char *x = net_block(&n, net_image(&n), ALL, 3, 8), *y;
    struct speedup_result s;

    (void)state;
    n.zero_bias = true;
    y = net_conv(&n, net_block(&n, x, ALL, 8, 8), NONE, 8, 8, 3);
    build_output(&n.b, net_add(&n, x, y));
    s = net_speedup(&n);
    assert_int_equal(count_nodes(&s, "Conv"), 1);
    speedup_free(&s);
}

/* The first convolution is masked, the second is padded: one carrier is kept. */
static void test_constant_before_padding(void **state)
{
    struct net n = net_new(4);
    const char *x = net_block(&n, net_image(&n), ALL, 3, 8);

    (void)state;
    x = net_relu(&n, net_add(&n, x, add_branch(&n, x, NONE, ALL, 8)));
    EXPECT(&n, net_conv(&n, x, ALL, 8, 4, 3), 8, 1, 8, 4);
}

/* The same without padding: the branch is one number per channel. */
static void test_constant_without_padding(void **state)
{
    struct net n = net_new(5);
    const char *x = net_block(&n, net_image(&n), ALL, 3, 8), *y;

    (void)state;
    y = net_relu(&n, net_conv(&n, x, NONE, 8, 6, 1));
    y = net_conv(&n, y, ALL, 6, 8, 1);
    EXPECT(&n, net_conv(&n, net_add(&n, x, y), ALL, 8, 4, 3), 8, 0, 0, 4);
}

/* A gate that is constant. */
static void test_constant_gate(void **state)
{
    struct net n = net_new(6);
    const char *x = net_block(&n, net_image(&n), ALL, 3, 8), *g;
    struct speedup_result s;

    (void)state;
    g = build_node(&n.b, "GlobalAveragePool", NAMES(x), NOTHING);
    g = net_relu(&n, net_conv(&n, g, ALL, 8, 4, 1));
    g = build_node(&n.b, "Sigmoid", NAMES(net_conv(&n, g, NONE, 4, 8, 1)), NOTHING);
    x = build_node(&n.b, "Mul", NAMES(x, g), NOTHING);
    build_output(&n.b, net_conv(&n, x, ALL, 8, 4, 3));
    s = net_speedup(&n);
    assert_int_equal(count_nodes(&s, "Conv"), 2);
    assert_int_equal(count_nodes(&s, "GlobalAveragePool"), 0);
    assert_int_equal(count_nodes(&s, "Mul"), 1);
    speedup_free(&s);
}

/* One of three concatenated branches is constant: it is folded into a bias and removed. */
static void test_constant_part_of_concat(void **state)
{
    struct net n = net_new(7);
    const char *x = net_image(&n), *a, *b, *c;
    struct speedup_result s;

    (void)state;
    a = net_block(&n, x, HALF, 3, 8);
    b = net_block(&n, x, NONE, 3, 6);
    c = net_block(&n, x, FRONT, 3, 4);
    x = build_node(&n.b, "Concat", NAMES(a, b, c), at_int("axis", 1));
    build_output(&n.b, net_conv(&n, x, ALL, 18, 4, 1));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 4);
    assert_int_equal(speedup_out_channels(&s, 1), 0);
    assert_int_equal(speedup_out_channels(&s, 2), 2);
    assert_int_equal(speedup_in_channels(&s, 3), 6);
    assert_int_equal(count_nodes(&s, "Conv"), 3);
    speedup_free(&s);
}

/* Everything is constant: one channel of each layer is kept, because the output's shape is computed
 * from the input. */
static void test_constant_model(void **state)
{
    struct net n = net_new(8);
    const char *x = net_image(&n);

    (void)state;
    n.unpadded = true;
    x = net_block(&n, x, NONE, 3, 8);
    x = net_block(&n, x, NONE, 8, 8);
    EXPECT(&n, net_conv(&n, x, ALL, 8, 4, 1), 1, 1, 4);
}

/* ---- constants that exporters share ---------------------------------------------------------- */

/* Layers share a bias, as exporters write equal ones; different channels are removed. */
static void test_shared_bias(void **state)
{
    struct net n = net_new(9);
    const char *x = net_image(&n), *b = CONST(&n, 0.2f, 0.5f, 8), *w;

    (void)state;
    w = WEIGHT(&n, FRONT, 0, 8, 3, 1, 1);
    x = net_relu(&n, build_node(&n.b, "Conv", NAMES(x, w, b), NOTHING));
    w = WEIGHT(&n, HALF, 0, 8, 8, 1, 1);
    x = net_relu(&n, build_node(&n.b, "Conv", NAMES(x, w, b), NOTHING));
    w = WEIGHT(&n, BACK, 0, 8, 8, 1, 1);
    b = build_node(&n.b, "Identity", NAMES(b), NOTHING);
    x = net_relu(&n, build_node(&n.b, "Conv", NAMES(x, w, b), NOTHING));
    w = WEIGHT(&n, ALL, 0, 8, 8, 1, 1);
    b = build_node(&n.b, "Identity", NAMES(b), NOTHING);
    x = net_relu(&n, build_node(&n.b, "Conv", NAMES(x, w, b), NOTHING));
    EXPECT(&n, x, 4, 4, 4, 8);
}

/* All vectors of two normalizations are one constant, as after initialization. */
static void test_shared_norm_parameters(void **state)
{
    struct net n = net_new(10);
    const char *x = net_image(&n), *one = CONST(&n, 1, 0.4f, 8),
               *slope = CONST(&n, 1, 0.4f, 8, 1, 1);
    struct speedup_result s;

    (void)state;
    n.unpadded = true;
    for (int i = 0; i < 2; i++) {
        x = net_conv(&n, x, i ? FRONT : HALF, i ? 8 : 3, 8, 3);
        x = build_node(&n.b, "BatchNormalization", NAMES(x, one, one, one, one), NOTHING);
        x = build_node(&n.b, "PRelu", NAMES(x, slope), NOTHING);
    }
    build_output(&n.b, net_conv(&n, x, ALL, 8, 4, 1));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 4);
    assert_int_equal(speedup_out_channels(&s, 1), 4);
    speedup_free(&s);
}

/* Two Reshapes read one list of sizes, and only one of them loses channels. */
static void test_shared_reshape_sizes(void **state)
{
    struct net n = net_new(11);
    const char *x = net_image(&n), *sizes = build_ints(&n.b, INTS(2, 8, 72)), *a, *b;

    (void)state;
    a = net_relu(&n, net_conv(&n, x, HALF, 3, 8, 1));
    a = build_node(&n.b, "Reshape", NAMES(a, sizes), NOTHING);
    a = build_node(&n.b, "Conv", NAMES(a, WEIGHT(&n, ALL, 0, 8, 8, 1)), NOTHING);
    b = net_relu(&n, net_conv(&n, x, ALL, 3, 8, 1));
    b = build_node(&n.b, "Reshape", NAMES(b, sizes), NOTHING);
    EXPECT(&n, net_add(&n, a, b), 4, 8, 8);
}

/* Upsample, of opset 9, passes constants on. */
static void test_upsample(void **state)
{
    struct net n = net_new(12);
    const char *y = net_conv(&n, net_image(&n), HALF, 3, 8, 1), *scales;

    (void)state;
    n.b.opset = 9;
    n.unpadded = true;
    scales = build_floats(&n.b, INTS(4), (float[]){ 1, 1, 2, 2 });
    y = build_node(&n.b, "Upsample", NAMES(y, scales), at_text("mode", "linear"));
    EXPECT(&n, net_conv(&n, y, ALL, 8, 4, 3), 4, 4);
}

/* Dropout that a file runs in training mode: zeros remain zeros, other constants do not. */
static void test_training_dropout(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct net n = net_new(13);
        const char *x = build_input(&n.b, PARE_F32, INTS(2, 6)), *y, *yes, *out[2];
        bool on = true;

        n.zero_bias = i == 1;
        y = net_gemm(&n, x, HALF, 6, 8);
        yes = build_const(&n.b, PARE_BOOL, 0, NULL, &on);
        build_node_outs(&n.b, "Dropout", NAMES(y, build_scalar(&n.b, i == 2 ? 0 : 0.5f), yes),
                        at_int("seed", 3), 2, out);
        build_output(&n.b, net_gemm(&n, out[0], ALL, 8, 2));
        {
            struct pare_speedup_opts o = { .threads = 1, .unverified = true };
            struct speedup_result s = net_speedup_with(&n, &o);

            assert_int_equal(speedup_out_channels(&s, 0), i ? 4 : 8);
            speedup_free(&s);
        }
    }
}

/* A layer of which later nodes read only the size is pruned by default; the last layer is not. */
static void test_default_layers(void **state)
{
    struct net n = net_new(14);
    const char *y = net_conv(&n, net_image(&n), ALL, 3, 8, 1), *z;
    struct pare_model *m;
    struct pare_graph *g;
    const struct pare_algorithm *p;
    struct pare_rules r = { 0 };
    struct pare_err err;

    (void)state;
    z = net_conv(&n, y, ALL, 8, 4, 1);
    y = build_node(&n.b, "Shape", NAMES(y), NOTHING);
    y = build_node(&n.b, "Slice", NAMES(y, build_ints(&n.b, INTS(2)), build_ints(&n.b, INTS(4))),
                   NOTHING);
    y = build_node(&n.b, "Concat", NAMES(build_ints(&n.b, INTS(2, 2, 2)), y), at_int("axis", 0));
    build_output(&n.b, build_node(&n.b, "Reshape", NAMES(z, y), NOTHING));
    m = build_model(&n.b);
    g = pare_graph_clone(pool, m->graph, &err);
    assert_non_null(g);
    assert_int_equal(pare_graph_infer(g, true, &err), 0);
    assert_int_equal(pare_find_pruner(NULL, "l1", &p, &err), 0);
    assert_int_equal(pare_default_rules(g, p, 0.5, pool, &r, &err), 0);
    assert_int_equal(r.n, 2);
    assert_true(r.rule[1].exclude && r.rule[1].op_names[0] && !r.rule[1].op_names[1]);
    pare_model_free(m);
}

/* A layer of which the condition of an If is computed, and which its bodies read, is not a last
 * layer: those of the bodies are. */
static void test_default_layers_before_a_condition(void **state)
{
    struct net n = net_new(14);
    struct build body[2];
    const char *h = net_relu(&n, net_conv(&n, net_image(&n), ALL, 3, 8, 1)), *yes;
    struct pare_model *m;
    struct pare_graph *g;
    const struct pare_algorithm *p;
    struct pare_rules r = { 0 };
    struct pare_err err;

    (void)state;
    yes = build_node(&n.b, "Greater",
                     NAMES(build_node(&n.b, "ReduceMean", NAMES(h), at_int("keepdims", 0)),
                           build_scalar(&n.b, 0)),
                     NOTHING);
    for (int i = 0; i < 2; i++) {
        float w[4 * 8] = { 1 };

        body[i] = (struct build){ .opset = 14, .prefix = i ? "else" : "then" };
        build_put(&body[i], text(2, body[i].prefix));
        build_output(&body[i],
                     build_node(&body[i], "Conv",
                                NAMES(h, build_floats(&body[i], INTS(4, 8, 1, 1), w)), NOTHING));
    }
    build_output(&n.b, build_node(&n.b, "If", NAMES(yes),
                                  CAT(at_graph("then_branch", &body[0]),
                                      at_graph("else_branch", &body[1]))));
    m = build_model(&n.b);
    g = pare_graph_clone(pool, m->graph, &err);
    assert_non_null(g);
    assert_int_equal(pare_graph_infer(g, true, &err), 0);
    assert_int_equal(pare_find_pruner(NULL, "l1", &p, &err), 0);
    if (pare_default_rules(g, p, 0.5, pool, &r, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(r.n, 2);
    assert_true(r.rule[1].op_names[0] && r.rule[1].op_names[1] && !r.rule[1].op_names[2]);
    pare_model_free(m);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_constant_branch_of_residual),
        T(test_zero_branch_of_residual),
        T(test_residual_that_is_an_output),
        T(test_constant_before_padding),
        T(test_constant_without_padding),
        T(test_constant_gate),
        T(test_constant_part_of_concat),
        T(test_constant_model),
        T(test_shared_bias),
        T(test_shared_norm_parameters),
        T(test_shared_reshape_sizes),
        T(test_upsample),
        T(test_training_dropout),
        T(test_default_layers),
        T(test_default_layers_before_a_condition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
