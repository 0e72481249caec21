/* test_quantize_recurrent.c - weights of LSTM layers in presets: gates that an exporter reorders,
 * export as DynamicQuantizeLSTM, and the rounding of its inputs. */
#include "make_model.h"

#include <pare/compress.h>

#include <math.h>

#include "plan/plan.h"

#define H 4
#define I 6

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* Values between -0.5 and 0.5 that repeat after a prime number of elements. */
static const char *weights(struct build *b, int rank, const int64_t *dim)
{
    int64_t n = 1;
    float *v;

    for (int i = 0; i < rank; i++)
        n *= dim[i];
    v = pare_alloc(pool, (size_t)n, sizeof(*v));
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    return build_floats(b, rank, dim, v);
}

/* PyTorch's gates i, f, c, o in the order of ONNX: i, o, f, c. */
static const char *reordered(struct build *b, int64_t columns)
{
    const char *w = weights(b, 2, (int64_t[]){ 4 * H, columns }), *part[3];
    static const int64_t range[3][2] = { { 0, H }, { 3 * H, 4 * H }, { H, 3 * H } };

    for (int i = 0; i < 3; i++)
        part[i] = build_node(b, "Slice",
                             NAMES(w, build_ints(b, INTS(range[i][0])),
                                   build_ints(b, INTS(range[i][1])), build_ints(b, INTS(0))),
                             NOTHING);
    w = build_node(b, "Concat", 3, part, at_int("axis", 0));
    return build_node(b, "Unsqueeze", NAMES(w, build_ints(b, INTS(0))), NOTHING);
}

static struct pare_model *lstm(bool reorder, int directions)
{
    struct build b = { .opset = 14 };
    const char *x = build_input(&b, PARE_F32, 3, (int64_t[]){ -1, 1, I }), *w, *r, *y[3];

    w = reorder ? reordered(&b, I) : weights(&b, 3, (int64_t[]){ directions, 4 * H, I });
    r = reorder ? reordered(&b, H) : weights(&b, 3, (int64_t[]){ directions, 4 * H, H });
    build_node_outs(&b, "LSTM", NAMES(x, w, r),
                    CAT(at_int("hidden_size", H),
                        at_text("direction", directions > 1 ? "bidirectional" : "forward")),
                    3, y);
    for (int i = 0; i < 3; i++)
        build_output(&b, y[i]);
    return build_model(&b);
}

static struct pare_tensor run(const struct pare_model *m, int64_t steps)
{
    struct pare_tensor x = build_tensor(PARE_F32, 3, (int64_t[]){ steps, 1, I }), out[3], y;
    struct pare_plan_opts o = { .threads = 1, .in = &x, .n_in = 1 };
    struct pare_plan *p = NULL;

    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = sinf((float)i * 1.3f);
    ok(pare_plan_new(m, &o, &p, &err));
    ok(pare_plan_run(p, &x, 1, out, m->graph->n_out, &err));
    y = build_copy(&out[0]);
    pare_plan_free(p);
    return y;
}

static double difference(const struct pare_tensor *a, const struct pare_tensor *b)
{
    double most = 0;

    assert_int_equal(pare_numel(a), pare_numel(b));
    for (int64_t i = 0; i < pare_numel(a); i++)
        most = fmax(most, fabs((double)pare_f32(a)[i] - (double)pare_f32(b)[i]));
    return most;
}

static int count(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

/* Quantizes with the preset and compares the file's model with the float one. */
static struct pare_model *quantized(bool reorder, int directions, const char *preset)
{
    struct pare_quantize_opts o = { .size = sizeof(o), .preset = preset };
    struct pare_model *m = lstm(reorder, directions), *out = NULL;
    struct pare_tensor before = run(m, 5), after;
    struct pare_quantize_report r = { 0 };

    ok(pare_quantize(m, &o, &out, &r, &err));
    assert_int_equal(r.layers, 2); /* W and R */
    after = run(out, 5);
    assert_true(difference(&before, &after) < 0.01);
    assert_true(difference(&before, &after) > 0);
    pare_model_free(m);
    return out;
}

static void test_reordered_gates_are_quantized(void **state)
{
    static const char *const presets[] = { "int8-weights", "w4" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_model *m = quantized(true, 1, presets[i]);

        assert_int_equal(count(m, "DequantizeLinear"), 2);
        assert_int_equal(count(m, "LSTM"), 1);
        pare_model_free(m);
    }
}

static void test_dynamic_export(void **state)
{
    (void)state;
    for (int directions = 1; directions <= 2; directions++) {
        struct pare_model *m = quantized(false, directions, "int8-dynamic");
        const struct pare_model_layer *l;
        int n;

        assert_int_equal(count(m, "DynamicQuantizeLSTM"), 1);
        assert_int_equal(count(m, "LSTM") + count(m, "DequantizeLinear"), 0);
        ok(pare_model_list_layers(m, pool, &l, &n, &err));
        assert_int_equal(n, 1);
        assert_int_equal(l[0].params, directions * 4 * H * (I + H));
        pare_model_free(m);
    }
}

static void test_export_out_of_memory(void **state)
{
    struct pare_quantize_opts o = { .size = sizeof(o), .preset = "int8-dynamic" };
    int failures = 0;

    (void)state;
    for (int n = -1; n > -100000; n -= n > -300 ? 1 : 1 - n / 50) {
        struct pare_model *m = lstm(false, 2), *out = NULL;
        bool reached;
        int rc;

        pare_oom_countdown = n;
        rc = pare_quantize(m, &o, &out, NULL, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        assert_true(rc || out);
        failures += rc != 0;
        pare_model_free(out);
        pare_model_free(m);
        if (!reached)
            break;
    }
    assert_true(failures > 100);
}

/* One step without an initial state: only the inputs are rounded, to steps of 0.01. */
static void test_inputs_are_rounded(void **state)
{
    static const float x[I] = { 0, 0.503f, 0.104f, 2.55f, 0.757f, 1.3f };
    struct pare_tensor y[2];

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct build b = { .opset = 14, .microsoft = true };
        float in[I], one[4 * H];
        int8_t w[I * 4 * H], zero[4 * H] = { 0 };
        const char *v, *name;
        struct pare_model *m;
        struct pare_plan *p = NULL;
        struct pare_tensor out;

        for (int i = 0; i < I * 4 * H; i++)
            w[i] = (int8_t)(i * 29 % 255 - 127);
        for (int i = 0; i < 4 * H; i++)
            one[i] = 0.01f;
        for (int i = 0; i < I; i++) /* the second time, the input is on the grid already */
            in[i] = k ? rintf(x[i] / 0.01f) * 0.01f : x[i];
        v = build_floats(&b, 3, (int64_t[]){ 1, 1, I }, in);
        name = build_const(&b, PARE_I8, 3, (int64_t[]){ 1, I, 4 * H }, w);
        v = build_node(&b, "DynamicQuantizeLSTM",
                       NAMES(v, name, build_const(&b, PARE_I8, 3, (int64_t[]){ 1, H, 4 * H }, w),
                             "", "", "", "", "", build_floats(&b, 2, (int64_t[]){ 1, 4 * H }, one),
                             build_const(&b, PARE_I8, 2, (int64_t[]){ 1, 4 * H }, zero),
                             build_floats(&b, 2, (int64_t[]){ 1, 4 * H }, one),
                             build_const(&b, PARE_I8, 2, (int64_t[]){ 1, 4 * H }, zero)),
                       CAT(at_int("hidden_size", H), text(7, "com.microsoft")));
        build_output(&b, v);
        m = build_model(&b);
        ok(pare_plan_new(m, NULL, &p, &err));
        ok(pare_plan_run(p, NULL, 0, &out, 1, &err));
        y[k] = build_copy(&out);
        pare_plan_free(p);
        pare_model_free(m);
    }
    assert_true(difference(&y[0], &y[1]) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reordered_gates_are_quantized),
        cmocka_unit_test(test_dynamic_export),
        cmocka_unit_test(test_export_out_of_memory),
        cmocka_unit_test(test_inputs_are_rounded),
    };
    int rc;

    pool = pare_arena_new(1 << 16);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pare_arena_free(pool);
    return rc;
}
