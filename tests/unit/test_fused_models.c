/* test_fused_models.c - FusedConv and FusedGemm in models: kernels, removal of channels,
 * equalization. */
#include "speedup_rig.h"

#include "quant/equalize.h"

static struct bin microsoft(struct bin attrs)
{
    return CAT(text(7, "com.microsoft"), attrs);
}

static const char *fused_conv(struct net *n, const char *x, const char *z, int which, int64_t I,
                              int64_t O, const char *act)
{
    const char *w = WEIGHT(n, which, 0, O, I, 3, 3), *b = net_bias(n, which, O);
    struct bin attrs = microsoft(
        CAT(at_ints("pads", INTS(1, 1, 1, 1)), at_text("activation", act)));

    return z ? build_node(&n->b, "FusedConv", NAMES(x, w, b, z), attrs)
             : build_node(&n->b, "FusedConv", NAMES(x, w, b), attrs);
}

/* Two convolutions, a residual one, a mean and two fully connected layers, half masked. */
static struct pare_model *make_network(struct net *n)
{
    const char *x = build_input(&n->b, PARE_F32, 4, (int64_t[]){ -1, 3, 8, 8 }), *y, *w;
    struct pare_model *m;
    struct pare_err err;
    struct bin bytes;

    x = fused_conv(n, x, NULL, HALF, 3, 8, "Sigmoid");
    y = fused_conv(n, x, NULL, FRONT, 8, 6, "Tanh");
    x = fused_conv(n, y, x, ALL, 6, 8, "Relu");
    x = build_node(&n->b, "GlobalAveragePool", NAMES(x), NOTHING);
    x = build_node(&n->b, "Flatten", NAMES(x), NOTHING);
    w = WEIGHT(n, HALF, 0, 10, 8);
    x = build_node(&n->b, "FusedGemm", NAMES(x, w, net_bias(n, HALF, 10)),
                   microsoft(CAT(at_int("transB", 1), at_text("activation", "LeakyRelu"),
                                 at_float("activation_alpha", 0.3f))));
    w = WEIGHT(n, ALL, 1, 10, 4);
    x = build_node(&n->b, "FusedMatMul", NAMES(x, w), microsoft(at_float("alpha", 0.5f)));
    build_output(&n->b, x);
    bytes = CAT(build_bytes(&n->b), opset("com.microsoft", 1));
    if (pare_model_parse(bytes.p, bytes.n, NULL, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

/* Fast kernels agree with the reference kernels; the plan has no FusedConv or FusedGemm node. */
static void test_kernels_match_reference(void **state)
{
    struct net n = net_new(1);
    struct pare_model *m = make_network(&n);
    struct pare_tensor x = net_random(&n, 0, 1, 4, (int64_t[]){ 2, 3, 8, 8 }), y[2];
    struct pare_plan *p[2];
    struct pare_err err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_plan_opts o = { .threads = 1, .in = &x, .n_in = 1, .reference = i };

        if (pare_plan_new(m, &o, &p[i], &err) || pare_plan_run(p[i], &x, 1, &y[i], 1, &err))
            fail_msg("%s", err.msg);
    }
    for (int64_t i = 0; i < pare_numel(&y[0]); i++)
        assert_float_equal(pare_f32(&y[0])[i], pare_f32(&y[1])[i], 1e-5);
    for (int i = 0; i < p[0]->graph->n_nodes; i++) {
        assert_string_not_equal(p[0]->graph->node[i]->type, "FusedConv");
        assert_string_not_equal(p[0]->graph->node[i]->type, "FusedGemm");
    }
    for (int i = 0; i < 2; i++)
        pare_plan_free(p[i]);
    pare_model_free(m);
}

/* A masked channel is activation(bias) and is folded into the next bias; before a padded layer
 * one channel carries all of them. */
static void test_masked_channels_are_removed(void **state)
{
    static const int64_t remaining[] = { 8, 4, 8, 5, 4 };
    struct net n = net_new(2);
    struct pare_model *m = make_network(&n), *small;
    struct pare_speedup_opts o = { .threads = 1 };
    struct pare_speedup_report r;
    struct pare_err err;

    (void)state;
    if (pare_speedup(m, &o, pool, &small, &r, &err))
        fail_msg("%s", err.msg);
    assert_true(r.verified);
    assert_int_equal(r.n_layers, 5);
    for (int i = 0; i < r.n_layers; i++)
        if (r.layer[i].out_left != remaining[i])
            fail_msg("layer %s keeps %d channels, expected %d", r.layer[i].name,
                     (int)r.layer[i].out_left, (int)remaining[i]);
    pare_model_free(small);
    pare_model_free(m);
}

static struct pare_tensor run_model(struct pare_model *m, struct pare_tensor *x)
{
    struct pare_plan_opts o = { .threads = 1, .in = x, .n_in = 1 };
    struct pare_tensor y, copy;
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_new(m, &o, &p, &err) || pare_plan_run(p, x, 1, &y, 1, &err) ||
        pare_tensor_new(pool, &copy, PARE_F32, y.rank, y.dim, &err))
        fail_msg("%s", err.msg);
    memcpy(copy.data, y.data, (size_t)pare_numel(&y) * sizeof(float));
    pare_plan_free(p);
    return copy;
}

/* Scaling a channel before tanh would change the function; a ConvTranspose can be scaled. */
static void test_equalization_leaves_fused_activations(void **state)
{
    struct net n = net_new(3);
    const char *x = build_input(&n.b, PARE_F32, 4, (int64_t[]){ -1, 3, 8, 8 });
    struct pare_tensor in = net_random(&n, 0, 1, 4, (int64_t[]){ 2, 3, 8, 8 }), before, after;
    struct pare_model *m;
    struct pare_err err;
    struct bin bytes;
    bool changed = false;
    int pairs;

    (void)state;
    x = fused_conv(&n, x, NULL, ALL, 3, 6, "Tanh");
    x = build_node(&n.b, "ConvTranspose", NAMES(x, WEIGHT(&n, ALL, 1, 6, 4, 2, 2)), NOTHING);
    x = build_node(&n.b, "Relu", NAMES(x), NOTHING);
    x = build_node(&n.b, "Conv", NAMES(x, WEIGHT(&n, ALL, 0, 5, 4, 3, 3)), NOTHING);
    build_output(&n.b, x);
    bytes = CAT(build_bytes(&n.b), opset("com.microsoft", 1));
    if (pare_model_parse(bytes.p, bytes.n, NULL, &m, &err))
        fail_msg("%s", err.msg);
    before = run_model(m, &in);
    if (pare_model_equalize(m, &pairs, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pairs, 1);
    after = run_model(m, &in);
    for (int64_t i = 0; i < pare_numel(&before); i++) {
        assert_float_equal(pare_f32(&before)[i], pare_f32(&after)[i], 1e-5);
        changed |= pare_f32(&before)[i] != pare_f32(&after)[i];
    }
    assert_true(changed); /* the weights were scaled */
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kernels_match_reference, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_masked_channels_are_removed, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_equalization_leaves_fused_activations, make_pool,
                                        drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
