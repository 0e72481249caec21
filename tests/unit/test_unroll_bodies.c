/* test_unroll_bodies.c - gradients of layers in bodies of If, Loop and Scan, against differences of
 * the results of inference. */
#include "onnx_make.h"

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

static struct bin int_attr(const char *name, int64_t v)
{
    return attr(name, 2, num(3, v));
}

static struct bin int64_weight(const char *name, const char *dims, int64_t v)
{
    return initializer(name, PARE_I64, dims, blob(9, &v, sizeof(v)));
}

static struct bin bool_weight(const char *name, uint8_t v)
{
    return initializer(name, PARE_BOOL, "", blob(9, &v, 1));
}

/* w (3, 3), of small numbers so that states do not grow. */
static struct bin weight(void)
{
    static const float v[9] = { 0.3f, -0.2f, 0.5f, 0.1f, 0.4f, -0.3f, -0.6f, 0.2f, 0.1f };

    return initializer("w", PARE_F32, "3,3", blob(9, v, sizeof(v)));
}

/* The model, its input x of these sizes. */
static struct pare_model *with_input(struct bin graph, const char *dims)
{
    struct bin file = model(CAT(graph, weight(), input("x", PARE_F32, dims)));
    struct pare_model *m = NULL;

    ok(pare_model_parse(file.p, file.n, NULL, &m, &err));
    return m;
}

/* ---- comparison ---------------------------------------------------------------------------- */

static struct pare_tensor batch_of(const struct pare_model *m)
{
    static float x[24];
    struct pare_tensor t = m->graph->in[0]->t;

    for (int i = 0; i < 24; i++)
        x[i] = (float)((i * 7) % 11) / 11 - 0.4f;
    t.data = x;
    return t;
}

/* The sum of the outputs, each times its index + 1. */
static double weighted_sum(const struct pare_model *m)
{
    struct pare_tensor in = batch_of(m), out;
    struct pare_plan_opts o = { .threads = 1, .in = &in, .n_in = 1 };
    struct pare_plan *p = NULL;
    double sum = 0;

    ok(pare_plan_new(m, &o, &p, &err));
    ok(pare_plan_run(p, &in, 1, &out, 1, &err));
    for (int64_t i = 0; i < pare_numel(&out); i++)
        sum += (double)(i + 1) * (double)pare_f32(&out)[i];
    pare_plan_free(p);
    return sum;
}

static int train_plan(struct pare_model *m, struct pare_plan **p)
{
    static const char *const names[] = { "w" };
    struct pare_tensor in = batch_of(m);
    struct pare_plan_opts o = { .threads = 1, .in = &in, .n_in = 1 };
    struct pare_plan_train t = { .names = names, .n_names = 1 };
    struct pare_plan_build b = { .opts = &o, .train = &t };

    ok(pare_model_own(m, pare_graph_find(m->graph, "w"), &err));
    return pare_plan_build(m, &b, p, &err);
}

/* Compare the gradient of w with differences. */
static void compare_gradient(struct pare_model *m)
{
    struct pare_tensor in = batch_of(m), out;
    struct pare_plan *p = NULL;
    float *w, *seed;

    ok(train_plan(m, &p));
    ok(pare_plan_run(p, &in, 1, &out, 1, &err));
    seed = pare_plan_out_grad(p);
    for (int64_t i = 0; i < pare_numel(&out); i++)
        seed[i] = (float)(i + 1);
    ok(pare_plan_backward(p, &err));
    w = pare_f32_mut(&pare_graph_find(m->graph, "w")->t);
    for (int i = 0; i < 9; i++) {
        float old = w[i], step = 1.0f / 256;
        double want, got = (double)pare_f32(&p->param[0].grad)[i];

        w[i] = old + step;
        want = weighted_sum(m);
        w[i] = old - step;
        want = (want - weighted_sum(m)) / (2 * (double)step);
        w[i] = old;
        assert_true(fabs(want) > 1e-3);
        if (!(fabs(got - want) <= 2e-3 * (1 + fabs(want))))
            fail_msg("gradient %d is %g, expected %g", i, got, want);
    }
    pare_plan_free(p);
    pare_model_free(m);
}

/* ---- models -------------------------------------------------------------------------------- */

/* s = tanh(s w + x[:, i]), three times; the numbers of the runs and all states are results. */
static struct bin loop_body(const char *condition)
{
    return CAT(node_with("Gather", "slice", "x,i", "xi", int_attr("axis", 1)),
               node("MatMul", "fc", "s,w", "a"), node("Add", "add", "a,xi", "b"),
               node("Tanh", "tanh", "b", "t"), node("Identity", "same", "t", "each"),
               node("Identity", "keep", condition, "more"), input("i", PARE_I64, ""),
               input("go", PARE_BOOL, ""), input("s", PARE_F32, "2,3"),
               output("more", PARE_BOOL, ""), output("t", PARE_F32, "2,3"),
               output("each", PARE_F32, "2,3"));
}

static struct bin loop(const char *condition)
{
    static const float zero[6];

    return CAT(node_with("Loop", "loop", "n,yes,start", "last,all",
                         attr("body", 5, msg(6, loop_body(condition)))),
               node_with("Unsqueeze", "front", "last", "one", attr("axes", 7, list(8, "0", 1))),
               node_with("Concat", "join", "all,one", "y", int_attr("axis", 0)),
               int64_weight("n", "", 3), bool_weight("yes", 1),
               initializer("start", PARE_F32, "2,3", blob(9, zero, sizeof(zero))),
               output("y", PARE_F32, "4,2,3"));
}

static void test_loop_with_states_and_stacks(void **state)
{
    (void)state;
    compare_gradient(with_input(loop("go"), "2,3,3"));
    compare_gradient(with_input(loop("yes"), "2,3,3"));
}

/* Backward over axis 1, the stack along axis 1 in reverse. */
static void test_scan_in_reverse(void **state)
{
    static const float half[6] = { 0.5f, 0.5f, 0.5f, -0.5f, 0.5f, 0.5f };
    struct bin body = CAT(node("MatMul", "fc", "s,w", "a"), node("Sub", "sub", "a,xi", "b"),
                          node("Tanh", "tanh", "b", "t"), node("Mul", "mul", "t,xi", "each"),
                          input("s", PARE_F32, "2,3"), input("xi", PARE_F32, "2,3"),
                          output("t", PARE_F32, "2,3"), output("each", PARE_F32, "2,3"));
    struct bin graph = CAT(node_with("Scan", "scan", "start,x", "last,y",
                                     CAT(attr("body", 5, msg(6, body)),
                                         int_attr("num_scan_inputs", 1),
                                         attr("scan_input_axes", 7, list(8, "1", 1)),
                                         attr("scan_input_directions", 7, list(8, "1", 1)),
                                         attr("scan_output_axes", 7, list(8, "-2", 1)),
                                         attr("scan_output_directions", 7, list(8, "1", 1)))),
                           initializer("start", PARE_F32, "2,3", blob(9, half, sizeof(half))),
                           output("y", PARE_F32, "2,4,3"));

    (void)state;
    compare_gradient(with_input(graph, "2,4,3"));
}

/* A list of results, concatenated after the loop; an If with a known condition in the body. */
static void test_lists_and_nested_bodies(void **state)
{
    struct bin yes = CAT(node("MatMul", "fc1", "xi,w", "p"), output("p", PARE_F32, "2,3"));
    struct bin no = CAT(node("Relu", "relu", "xi", "q"), output("q", PARE_F32, "2,3"));
    struct bin body =
        CAT(node_with("Gather", "slice", "x,i", "xi", int_attr("axis", 1)),
            node("Equal", "first", "i,one", "is"),
            node_with("If", "choose", "is", "r",
                      CAT(attr("then_branch", 5, msg(6, yes)), attr("else_branch", 5, msg(6, no)))),
            node("MatMul", "fc2", "r,w", "t"), node("SequenceInsert", "insert", "s,t", "u"),
            node("Identity", "keep", "go", "more"), input("i", PARE_I64, ""),
            input("go", PARE_BOOL, ""), msg(11, text(1, "s")), output("more", PARE_BOOL, ""),
            msg(12, text(1, "u")));
    struct bin graph = CAT(
        node("SequenceEmpty", "empty", "", "none"),
        node_with("Loop", "loop", "n,,none", "list", attr("body", 5, msg(6, body))),
        node_with("ConcatFromSequence", "cat", "list", "c", int_attr("axis", 1)),
        node("SequenceAt", "at", "list,back", "d"), node("Sum", "sum", "c,c", "e"),
        node_with("Concat", "join", "e,d", "y", int_attr("axis", 1)), int64_weight("n", "", 4),
        int64_weight("one", "", 1), int64_weight("back", "", -2), output("y", PARE_F32, "2,15"));

    (void)state;
    compare_gradient(with_input(graph, "2,4,3"));
}

/* Which body runs depends on x: an error that names the node, also if it is read only by operators
 * that have no parameters. */
static void test_a_condition_from_data_is_refused(void **state)
{
    struct bin yes = CAT(node("MatMul", "fc1", "x,w", "p"), output("p", PARE_F32, "2,3"));
    struct bin no = CAT(node("Relu", "relu", "x", "q"), output("q", PARE_F32, "2,3"));
    struct bin start = CAT(node_with("ReduceSum", "sum", "x", "z", int_attr("keepdims", 0)),
                           node_with("Cast", "cast", "z", "c", int_attr("to", 9)),
                           node_with("If", "choose", "c", "r",
                                     CAT(attr("then_branch", 5, msg(6, yes)),
                                         attr("else_branch", 5, msg(6, no)))),
                           output("y", PARE_F32, "2,3"));
    struct bin end[3] = { node("MatMul", "fc2", "r,w", "y"), node("Relu", "relu", "r", "y"),
                          CAT(node("Relu", "relu", "r", "s"), node("MatMul", "fc2", "x,w", "t"),
                              node("Add", "add", "s,t", "y")) };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_model *m = with_input(CAT(start, end[i]), "2,3");
        struct pare_plan *p = NULL;

        assert_int_equal(train_plan(m, &p), PARE_EUNSUPPORTED);
        assert_non_null(strstr(err.msg, "'choose' (If) has no gradient, because data decide"));
        pare_model_free(m);
    }
}

static void test_unrolling_without_memory(void **state)
{
    int failures = 0, rc = 1;

    (void)state;
    for (int n = 1; rc && n < 100000; n++) {
        struct pare_model *m = with_input(loop("go"), "2,3,3");
        struct pare_plan *p = NULL;

        ok(pare_model_own(m, pare_graph_find(m->graph, "w"), &err));
        pare_oom_countdown = n;
        rc = train_plan(m, &p);
        pare_oom_countdown = 0;
        if (rc)
            assert_int_equal(rc, PARE_ENOMEM);
        failures += rc != 0;
        pare_plan_free(p);
        pare_model_free(m);
    }
    assert_int_equal(rc, 0);
    assert_in_range(failures, 4, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_loop_with_states_and_stacks),
                                        cmocka_unit_test(test_scan_in_reverse),
                                        cmocka_unit_test(test_lists_and_nested_bodies),
                                        cmocka_unit_test(test_a_condition_from_data_is_refused),
                                        cmocka_unit_test(test_unrolling_without_memory) };
    int rc;

    pool = pare_arena_new(1 << 16);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pare_arena_free(pool);
    return rc;
}
