/* test_bodies.c - layers in bodies of If, their weights, and shapes in bodies of Loop. */
#include "onnx_make.h"

#include <pare/compress.h>
#include <pare/session.h>

#include <math.h>
#include <stdio.h>

#include "plan/plan.h"

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

static struct bin attr(const char *name, unsigned type, struct bin value)
{
    return msg(5, CAT(text(1, name), value, num(20, type)));
}

static struct pare_model *parse(struct bin file)
{
    struct pare_model *m = NULL;

    ok(pare_model_parse(file.p, file.n, NULL, &m, &err));
    return m;
}

/* A (4, 3) matrix whose elements are different in absolute value. */
static struct bin alternating_weight(float first)
{
    float v[12];

    for (int i = 0; i < 12; i++)
        v[i] = (i % 2 ? -1.0f : 1.0f) * (first + (float)i);
    return blob(9, v, sizeof(v));
}

/* y = c ? x fc.weight + x out.weight : x fc.weight, where each body has its own fc.weight. */
static struct bin two_bodies(void)
{
    struct bin yes = CAT(node("MatMul", "m1", "x,fc.weight", "a"),
                         node("MatMul", "m2", "x,out.weight", "b"), node("Add", "sum", "a,b", "p"),
                         initializer("fc.weight", PARE_F32, "4,3", alternating_weight(1)),
                         output("p", PARE_F32, "1,3"));
    struct bin no = CAT(node("MatMul", "m3", "x,fc.weight", "q"),
                        initializer("fc.weight", PARE_F32, "4,3", alternating_weight(20)),
                        output("q", PARE_F32, "1,3"));

    return model(
        CAT(node_with("If", "If_0", "c", "y",
                      CAT(attr("then_branch", 5, msg(6, yes)), attr("else_branch", 5, msg(6, no)))),
            initializer("out.weight", PARE_F32, "4,3", alternating_weight(50)),
            input("c", PARE_BOOL, ""), input("x", PARE_F32, "1,4"), output("y", PARE_F32, "1,3")));
}

static void run_model(const struct pare_model *m, uint8_t c, float *y)
{
    float x[4] = { 1, 2, -1, 0.5f };
    struct pare_tensor in[2] = { { .dtype = PARE_BOOL, .data = &c },
                                 { .dtype = PARE_F32, .rank = 2, .dim = { 1, 4 }, .data = x } };
    struct pare_plan_opts o = { .threads = 1, .in = in, .n_in = 2 };
    struct pare_plan *p = NULL;
    struct pare_tensor out;

    ok(pare_plan_new(m, &o, &p, &err));
    for (int i = 0; i < 2; i++) /* twice: bodies must not keep state between runs */
        ok(pare_plan_run(p, in, 2, &out, 1, &err));
    assert_int_equal(pare_numel(&out), 3);
    memcpy(y, out.data, 3 * sizeof(float));
    pare_plan_free(p);
}

/* The expected result of run_model(), from the model's current weights. */
static void compute_expected(const struct pare_model *m, uint8_t c, float *y)
{
    static const float x[4] = { 1, 2, -1, 0.5f };
    const char *name[2] = { c ? "If_0/then/fc.weight" : "If_0/else/fc.weight", "out.weight" };

    for (int o = 0; o < 3; o++)
        y[o] = 0;
    for (int k = 0; k < 1 + c; k++) {
        struct pare_tensor w;

        ok(pare_model_tensor(m, name[k], &w, &err));
        for (int i = 0; i < 12; i++)
            y[i % 3] += x[i / 3] * pare_f32(&w)[i];
    }
}

static void compare_with_weights(const struct pare_model *m, const struct pare_model *weights,
                                 float tolerance)
{
    for (uint8_t c = 0; c < 2; c++) {
        float got[3], want[3];

        run_model(m, c, got);
        compute_expected(weights, c, want);
        for (int o = 0; o < 3; o++)
            if (!(fabsf(got[o] - want[o]) <= tolerance * (1 + fabsf(want[o]))))
                fail_msg("condition %d, output %d is %g, expected %g", c, o, (double)got[o],
                         (double)want[o]);
    }
}

static void test_layers_in_bodies_are_listed(void **state)
{
    static const char *const names[] = { "If_0/then/fc", "If_0/then/out", "If_0/else/fc" };
    static const char *const weights[] = { "If_0/then/fc.weight", "out.weight",
                                           "If_0/else/fc.weight" };
    struct pare_model *m = parse(two_bodies());
    const struct pare_model_layer *l;
    int n;

    (void)state;
    ok(pare_model_list_layers(m, pool, &l, &n, &err));
    assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) {
        assert_string_equal(l[i].name, names[i]);
        assert_string_equal(l[i].weight, weights[i]);
        assert_int_equal(l[i].params, 12);
        assert_true(l[i].macs == 12);
    }
    compare_with_weights(m, m, 1e-6f);
    pare_model_free(m);
}

static void test_layers_in_bodies_are_pruned(void **state)
{
    const struct pare_rule rule = { .op_types = (const char *const[]){ "Linear", NULL },
                                    .keys = "sparsity=0.5" };
    struct pare_prune_opts o = { .size = sizeof(o),
                                 .pruner = "level",
                                 .rule = &rule,
                                 .n_rules = 1 };
    static const char *const weights[] = { "If_0/then/fc.weight", "out.weight",
                                           "If_0/else/fc.weight" };
    struct pare_model *m = parse(two_bodies()), *out = NULL;

    (void)state;
    ok(pare_prune(m, &o, &out, NULL, &err));
    for (int i = 0; i < 3; i++) {
        struct pare_tensor w;
        int zeros = 0;

        ok(pare_model_tensor(out, weights[i], &w, &err));
        for (int k = 0; k < 12; k++)
            zeros += pare_f32(&w)[k] == 0;
        assert_int_equal(zeros, 6);
    }
    compare_with_weights(out, out, 1e-6f);
    pare_model_free(out);
    pare_model_free(m);
}

static void test_weights_in_bodies_are_quantized(void **state)
{
    struct pare_quantize_opts o = { .size = sizeof(o), .preset = "int8-weights" };
    struct pare_model *m = parse(two_bodies()), *was = parse(two_bodies()), *out = NULL;
    struct pare_quantize_report r = { 0 };

    (void)state;
    ok(pare_quantize(m, &o, &out, &r, &err));
    assert_int_equal(r.layers, 3);
    compare_with_weights(out, was, 0.02f);
    pare_model_free(out);
    pare_model_free(m);
    pare_model_free(was);
}

/* Nodes of a type in a graph and its bodies. */
static int count_type(const struct pare_graph *g, const char *type)
{
    const struct pare_graph *body;
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++) {
        n += !strcmp(g->node[i]->type, type);
        for (int b = 0; (body = pare_node_body(g->node[i], b, NULL)) != NULL; b++)
            n += count_type(body, type);
    }
    return n;
}

/* Each body quantizes x itself: a value of one body is unknown in the other. */
static void test_layers_in_bodies_are_quantized_dynamically(void **state)
{
    struct pare_quantize_opts o = { .size = sizeof(o), .preset = "int8-dynamic" };
    struct pare_model *m = parse(two_bodies()), *was = parse(two_bodies()), *out = NULL;
    struct pare_quantize_report r = { 0 };

    (void)state;
    ok(pare_quantize(m, &o, &out, &r, &err));
    assert_int_equal(r.layers, 3);
    assert_int_equal(count_type(out->graph, "MatMulInteger"), 3);
    assert_int_equal(count_type(out->graph, "DynamicQuantizeLinear"), 2);
    assert_int_equal(count_type(out->graph, "MatMul"), 0);
    compare_with_weights(out, was, 0.02f);
    pare_model_free(out);
    pare_model_free(m);
    pare_model_free(was);
}

static void test_dynamic_export_out_of_memory(void **state)
{
    struct pare_quantize_opts o = { .size = sizeof(o), .preset = "int8-dynamic" };
    int failures = 0;

    (void)state;
    for (int n = -1; n > -100000; n -= n > -300 ? 1 : 1 - n / 50) {
        struct pare_model *m = parse(two_bodies()), *out = NULL;
        bool reached;
        int rc;

        pare_oom_countdown = n;
        rc = pare_quantize(m, &o, &out, NULL, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        assert_true(rc || out);
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: error %d instead of no memory: %s", -n, rc, err.msg);
        failures += rc != 0;
        pare_model_free(out);
        pare_model_free(m);
        if (!reached)
            break;
    }
    assert_true(failures > 100);
}

/* Activations in bodies stay float: a config_list that asks for them is an error. */
static void test_activations_in_bodies_are_refused(void **state)
{
    static const char *const config[] = {
        ("[{\"quant_types\": [\"weight\", \"input\"], \"quant_bits\": 8, \"op_names\": "
         "[\"If_0/then/fc\"]}]"),
        "[{\"quant_types\": [\"output\"], \"quant_bits\": 8, \"op_types\": [\"Linear\"]}]",
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": [\"Linear\"]}]",
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_quantize_opts o = { .size = sizeof(o),
                                        .quantizer = "naive",
                                        .config = config[i] };
        struct pare_model *m = parse(two_bodies()), *out = NULL;
        int rc = pare_quantize(m, &o, &out, NULL, &err);

        assert_int_equal(rc, i < 2 ? PARE_ECONFIG : 0);
        if (rc)
            assert_non_null(strstr(err.msg, "activations of layers inside bodies stay float"));
        if (!i)
            assert_non_null(strstr(err.msg, "layer 'If_0/then/fc'"));
        pare_model_free(out);
        pare_model_free(m);
    }
}

/* h = x fc.weight; y = c ? -h : abs(h), where -h is in an If of its own: bodies at two depths
 * capture h. */
static struct bin captured_layer(void)
{
    struct bin inner = CAT(node("Neg", "neg", "h", "p"), output("p", PARE_F32, "1,3"));
    struct bin other = CAT(node("Identity", "same", "h", "r"), output("r", PARE_F32, "1,3"));
    struct bin yes = CAT(node_with("If", "If_1", "c", "s",
                                   CAT(attr("then_branch", 5, msg(6, inner)),
                                       attr("else_branch", 5, msg(6, other)))),
                         output("s", PARE_F32, "1,3"));
    struct bin no = CAT(node("Abs", "abs", "h", "q"), output("q", PARE_F32, "1,3"));

    return model(
        CAT(node("MatMul", "m", "x,fc.weight", "h"),
            node_with("If", "If_0", "c", "y",
                      CAT(attr("then_branch", 5, msg(6, yes)), attr("else_branch", 5, msg(6, no)))),
            initializer("fc.weight", PARE_F32, "4,3", alternating_weight(0)),
            input("c", PARE_BOOL, ""), input("x", PARE_F32, "1,4"), output("y", PARE_F32, "1,3")));
}

/* dorefa clips an output to 0 ... 1: the products are much larger, so a body that reads the value
 * before quantization has another result. */
static void test_a_quantized_value_is_captured(void **state)
{
    struct pare_compression_opts o = {
        .quantizer = "dorefa",
        .config = "[{\"quant_types\": [\"output\"], \"quant_bits\": 8, \"op_names\": [\"fc\"]}]",
        .threads = 1,
    };
    const struct pare_export files = { .onnx = "captured.tmp.onnx" };
    struct pare_model *m = parse(captured_layer()), *made = NULL;
    struct pare_compression *c = NULL;
    float before[2][3], simulated[2][3], file[2][3], after[2][3];

    (void)state;
    for (uint8_t k = 0; k < 2; k++)
        run_model(m, k, before[k]);
    ok(pare_compression_new(m, &o, &c, &err));
    ok(pare_compression_compress(c, &err));
    for (uint8_t k = 0; k < 2; k++)
        run_model(m, k, simulated[k]);
    ok(pare_compression_export(c, &files, &err));
    ok(pare_model_load(files.onnx, &made, &err));
    remove(files.onnx);
    pare_compression_free(c);
    for (uint8_t k = 0; k < 2; k++) {
        run_model(made, k, file[k]);
        run_model(m, k, after[k]);
        for (int i = 0; i < 3; i++) {
            assert_true(fabsf(before[k][i]) > 1);
            assert_true(fabsf(simulated[k][i]) <= 1);
            assert_true(simulated[k][i] == file[k][i]);
            assert_true(before[k][i] == after[k][i]);
        }
    }
    pare_model_free(made);
    pare_model_free(m);
}

/* The state doubles in every iteration, so its size in the body must not be folded: the stacked
 * results are 1, 2, 4. */
static void test_loop_with_a_growing_state(void **state)
{
    static const int64_t trips = 3;
    struct bin body = CAT(node("Identity", "keep", "go", "more"),
                          node_with("Concat", "grow", "s,s", "t", attr("axis", 2, num(3, 0))),
                          node("Size", "size", "s", "z"), input("i", PARE_I64, ""),
                          input("go", PARE_BOOL, ""), input("s", PARE_F32, "1"),
                          output("more", PARE_BOOL, ""), output("t", PARE_F32, "n"),
                          output("z", PARE_I64, ""));
    struct bin file = model(
        CAT(node_with("Loop", "loop", "n,,x", "last,y", attr("body", 5, msg(6, body))),
            initializer("n", PARE_I64, "", blob(9, &trips, sizeof(trips))),
            input("x", PARE_F32, "1"), output("y", PARE_I64, "3"), output("last", PARE_F32, "8")));
    struct pare_model *m = parse(file);
    float x = 1;
    struct pare_tensor in = { .dtype = PARE_F32, .rank = 1, .dim = { 1 }, .data = &x }, out[2];
    struct pare_plan *p = NULL;

    (void)state;
    ok(pare_plan_new(m, NULL, &p, &err));
    ok(pare_plan_run(p, &in, 1, out, 2, &err));
    assert_int_equal(pare_numel(&out[0]), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pare_i64(&out[0])[i], 1 << i);
    assert_int_equal(pare_numel(&out[1]), 8);
    pare_plan_free(p);
    pare_model_free(m);
}

/* y = x + eight ones, from a Loop that concatenates a constant with itself: the shape is known only
 * because the Loop is folded. */
static struct bin constant_loop(void)
{
    static const int64_t trips = 3;
    static const float one = 1;
    struct bin body = CAT(node("Identity", "keep", "go", "more"),
                          node_with("Concat", "grow", "s,s", "t", attr("axis", 2, num(3, 0))),
                          input("i", PARE_I64, ""), input("go", PARE_BOOL, ""),
                          input("s", PARE_F32, "n"), output("more", PARE_BOOL, ""),
                          output("t", PARE_F32, "n"));

    return model(CAT(node_with("Loop", "loop", "n,,one", "eight", attr("body", 5, msg(6, body))),
                     node("Add", "add", "x,eight", "y"),
                     initializer("n", PARE_I64, "", blob(9, &trips, sizeof(trips))),
                     initializer("one", PARE_F32, "1", blob(9, &one, sizeof(one))),
                     input("x", PARE_F32, "8"), output("y", PARE_F32, "8")));
}

/* A failing allocation is an error, or it changes nothing: the shape does not depend on data. */
static void test_failed_memory_is_not_a_dynamic_shape(void **state)
{
    struct pare_plan_opts o = { .threads = 1 };

    (void)state;
    for (int sign = -1; sign < 2; sign += 2) {
        struct pare_model *m = parse(constant_loop());
        int failures = 0;
        bool reached = true;

        for (int k = 1; reached; k++) {
            struct pare_plan *p = NULL;
            int rc;

            err = (struct pare_err){ 0 };
            pare_oom_countdown = sign * k;
            rc = pare_plan_make(m, &o, &p, &err);
            reached = pare_oom_countdown == 0;
            pare_oom_countdown = 0;
            if (rc && (rc != PARE_ENOMEM || !strstr(err.msg, "memory")))
                fail_msg("allocation %d: code %d, '%s'", sign * k, rc, err.msg);
            if (!rc && p->results)
                fail_msg("allocation %d: the shape depends on data", sign * k);
            failures += rc != 0;
            if (!rc)
                pare_plan_free(p);
        }
        assert_true(failures > 0);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_in_bodies_are_listed),
        cmocka_unit_test(test_layers_in_bodies_are_pruned),
        cmocka_unit_test(test_weights_in_bodies_are_quantized),
        cmocka_unit_test(test_layers_in_bodies_are_quantized_dynamically),
        cmocka_unit_test(test_dynamic_export_out_of_memory),
        cmocka_unit_test(test_activations_in_bodies_are_refused),
        cmocka_unit_test(test_a_quantized_value_is_captured),
        cmocka_unit_test(test_loop_with_a_growing_state),
        cmocka_unit_test(test_failed_memory_is_not_a_dynamic_shape)
    };
    int rc;

    pool = pare_arena_new(1 << 16);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pare_arena_free(pool);
    return rc;
}
