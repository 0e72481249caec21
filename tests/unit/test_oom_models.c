/* test_oom_models.c - out of memory in models with bodies, sequences, signals, fused operators. */
#include <stdio.h>

#include "make_model.h"

#include "io/file.h"

#define PACK "models/opsets.pack" /* written by tools/make_opset_models.py */

static const int64_t sizes[4] = { 1, 2, 4, 6 };

/* ---- load and run ---------------------------------------------------------------------------- */

/* Runs the model; y: a copy of the first output; NULL: the first output must equal `want`. */
static int run_model(const struct pare_model *m, bool reference, struct pare_tensor *y,
                     const struct pare_tensor *want, struct pare_err *err)
{
    struct pare_tensor x[4] = { 0 };
    struct pare_plan_opts o = { .in = x, .threads = 1, .reference = reference };
    static int64_t bytes[256]; /* data of inputs that are not float32 */
    static float values[1024];
    const struct pare_io *io;
    struct pare_plan *p;
    struct pare_tensor out[8];
    int rc;

    o.n_in = pare_model_inputs(m, &io);
    assert_true(o.n_in <= 4);
    for (int i = 0; i < 1024; i++)
        values[i] = (float)(i * 37 % 101) / 50 - 1;
    bytes[0] = 1;
    for (int i = 0; i < o.n_in; i++) {
        x[i] = (struct pare_tensor){ .dtype = io[i].dtype, .rank = io[i].rank };
        x[i].data = io[i].dtype == PARE_F32 ? (void *)values : (void *)bytes;
        for (int k = 0; k < x[i].rank; k++)
            x[i].dim[k] = io[i].dim[k] < 0 ? 2 + k : io[i].dim[k];
    }
    PARE_TRY(pare_plan_new(m, &o, &p, err));
    rc = pare_plan_run(p, x, o.n_in, out, pare_model_outputs(m, &io), err);
    if (!rc && y)
        *y = build_copy(&out[0]);
    else if (!rc)
        assert_memory_equal(out[0].data, want->data, 4 * (size_t)pare_numel(want));
    pare_plan_free(p);
    return rc;
}

static int load_and_run(struct bin file, bool reference, struct pare_tensor *y,
                        const struct pare_tensor *want, struct pare_err *err)
{
    struct pare_model *m = NULL;
    int rc = pare_model_parse(file.p, file.n, NULL, &m, err);

    if (!rc)
        rc = run_model(m, reference, y, want, err);
    pare_model_free(m);
    return rc;
}

static void fail_each_allocation(struct bin file, const char *name, bool reference, int sign)
{
    struct pare_err err = { 0 };
    struct pare_tensor want;
    bool reached = true;
    int failures = 0;

    if (load_and_run(file, reference, &want, NULL, &err))
        fail_msg("%s: %s", name, err.msg);
    for (int n = 1; reached; n++) {
        int rc;

        err = (struct pare_err){ 0 };
        pare_oom_countdown = sign * n;
        rc = load_and_run(file, reference, NULL, &want, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        failures += rc != 0;
        if (rc && (rc != PARE_ENOMEM || err.code != rc || !strstr(err.msg, "memory")))
            fail_msg("%s, allocation %d: code %d, '%s'", name, n, rc, err.msg);
    }
    print_message("%-20s %s %s: %d failures\n", name, reference ? "reference" : "fast",
                  sign < 0 ? "requests" : "blocks", failures);
    assert_true(failures > (sign < 0 ? 20 : 2));
}

static void fail_in_all_modes(struct bin file, const char *name)
{
    for (int i = 0; i < 4; i++)
        fail_each_allocation(file, name, i % 2, i / 2 ? 1 : -1);
}

/* ---- models ---------------------------------------------------------------------------------- */

static struct bin read_part(FILE *f)
{
    unsigned char n[4];
    struct bin b = NOTHING;

    if (fread(n, 1, 4, f) != 4)
        return b;
    b.n = n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16 | (size_t)n[3] << 24;
    assert_true(b.n < 1 << 20);
    b.p = pare_alloc(pool, b.n + 1, 1);
    assert_int_equal(fread(b.p, 1, b.n, f), b.n);
    return b;
}

/* Models with If, Loop and Scan. */
static void test_bodies(void **state)
{
    static const char *const wanted = " if-9 if_nested-10 loop-11 scan-9 ";
    FILE *f = fopen(PACK, "rb");
    int n = 0;

    (void)state;
    assert_non_null(f);
    for (;;) {
        struct bin name = read_part(f), file = read_part(f);

        if (!name.p || !file.p)
            break;
        if (!strstr(wanted, pare_sprintf(pool, " %s ", (char *)name.p)))
            continue;
        fail_in_all_modes(file, (char *)name.p);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 4);
}

/* Constants, batch normalization in training mode, shared parameters. */
static void test_exporter_habits(void **state)
{
    struct bin file = NOTHING;
    struct pare_err err;
    const void *p;

    (void)state;
    assert_int_equal(pare_file_read(pool, "models/exporter_habits.onnx", &p, &file.n, &err), 0);
    file.p = (unsigned char *)(uintptr_t)p;
    fail_in_all_modes(file, "exporter_habits");
}

static struct bin constant_node(const char *name, const char *dims, size_t n)
{
    static const float v[64] = { 1, 2, 3 };
    struct bin t = tensor("", PARE_F32, dims, blob(9, v, n * sizeof(*v)));

    return node_with("Constant", "", "", name,
                     msg(5, CAT(text(1, "value"), msg(5, t), num(20, 4))));
}

/* Weights in the bodies of If; float16 weights with Reshape, Cast and Transpose. */
static void test_folded_weights(void **state)
{
    static const uint16_t half[16] = { 0x3c00, 0x3800, 0x4000 };
    int64_t shape[2] = { 4, 4 };
    struct bin then = CAT(constant_node("w", "4,4", 16), node("MatMul", "", "h,w", "y1"),
                          text(2, "t"), output("y1", PARE_F32, "N,4"));
    struct bin other = CAT(node("MatMul", "", "h,d", "y2"), text(2, "e"),
                           output("y2", PARE_F32, "N,4"));
    struct bin attrs = CAT(msg(5, CAT(text(1, "then_branch"), msg(6, then), num(20, 5))),
                           msg(5, CAT(text(1, "else_branch"), msg(6, other), num(20, 5))));
    struct bin graph = CAT(initializer("fc.weight", PARE_F16, "16", blob(9, half, sizeof(half))),
                           initializer("s", PARE_I64, "2", blob(9, shape, sizeof(shape))),
                           node("Reshape", "", "fc.weight,s", "a"),
                           node_with("Cast", "", "a", "b", at_int("to", 1)),
                           node("Transpose", "", "b", "d"), node("MatMul", "", "x,d", "h"),
                           node_with("If", "if", "c", "y", attrs), text(2, "g"),
                           input("x", PARE_F32, "N,4"), input("c", PARE_BOOL, ""),
                           output("y", PARE_F32, "N,4"));

    (void)state;
    fail_in_all_modes(model(graph), "weights");
}

static void test_sequences(void **state)
{
    struct build b = { .opset = 18 }, body = { .prefix = "b" };
    const char *x = build_input(&b, PARE_F32, 3, sizes + 1), *s, *y;
    const char *at = build_const(&b, PARE_I64, 0, NULL, sizes);
    const char *zero = build_const(&b, PARE_I64, 0, NULL, (int64_t[]){ 0 });

    (void)state;
    s = build_node(&b, "SequenceConstruct", NAMES(x, x), NOTHING);
    s = build_node(&b, "SequenceInsert", NAMES(s, x, at), NOTHING);
    s = build_node(&b, "SequenceErase", NAMES(s, at), NOTHING);
    y = build_node(&b, "ConcatFromSequence", NAMES(s), at_int("axis", 1));
    s = build_node(&b, "SplitToSequence", NAMES(y), at_int("axis", 1));
    y = build_input(&body, PARE_F32, -1, NULL);
    build_output(&body, build_node(&body, "Sin", NAMES(y), NOTHING));
    s = build_node(&b, "SequenceMap", NAMES(s), at_graph("body", &body));
    y = build_node(&b, "SequenceAt", NAMES(s, at), NOTHING);
    y = build_node(&b, "Optional", NAMES(y), NOTHING);
    x = build_node(&b, "OptionalHasElement", NAMES(y), NOTHING);
    y = build_node(&b, "OptionalGetElement", NAMES(y), NOTHING);
    build_output(&b, y);
    build_output(&b, x);
    x = build_node(&b, "SequenceEmpty", 0, NULL, NOTHING);
    x = build_node(&b, "SequenceInsert", NAMES(x, y), NOTHING);
    build_output(&b, build_node(&b, "SequenceAt", NAMES(x, zero), NOTHING));
    build_output(&b, build_node(&b, "SequenceLength", NAMES(s), NOTHING));
    fail_in_all_modes(build_bytes(&b), "sequences");
}

static void test_signal_operators(void **state)
{
    struct build b = { .opset = 17 };
    const char *x = build_input(&b, PARE_F32, 3, (int64_t[]){ 2, 19, 1 }), *w, *y;
    const char *step = build_const(&b, PARE_I64, 0, NULL, sizes + 1);
    const char *length = build_const(&b, PARE_I64, 0, NULL, sizes + 3);

    (void)state;
    w = build_node(&b, "HannWindow", NAMES(length), NOTHING);
    y = build_node(&b, "STFT", NAMES(x, step, w, length), NOTHING);
    build_output(&b, y);
    build_output(&b, build_node(&b, "DFT", NAMES(x), NOTHING));
    build_output(&b, build_node(&b, "HammingWindow", NAMES(length), NOTHING));
    build_output(&b, build_node(&b, "BlackmanWindow", NAMES(length), NOTHING));
    y = build_const(&b, PARE_I64, 0, NULL, (int64_t[]){ 8000 });
    build_output(&b, build_node(&b, "MelWeightMatrix",
                                NAMES(length, build_const(&b, PARE_I64, 0, NULL, (int64_t[]){ 16 }),
                                      y, build_scalar(&b, 0), build_scalar(&b, 4000)),
                                NOTHING));
    fail_in_all_modes(build_bytes(&b), "signals");
}

static const char *microsoft_node(struct build *b, const char *type, int n, const char *const *in,
                                  struct bin attrs)
{
    return build_node(b, type, n, in, CAT(text(7, "com.microsoft"), attrs));
}

static void test_fused_operators(void **state)
{
    static const float v[64] = { 0.5f, -1, 0.25f, 2 };
    struct build b = { .opset = 17 };
    const char *x = build_input(&b, PARE_F32, 4, (int64_t[]){ 2, 2, 4, 4 }), *y, *w;
    const char *bias = build_floats(&b, 1, (int64_t[]){ 4 }, v);

    (void)state;
    w = build_floats(&b, 4, (int64_t[]){ 4, 2, 2, 2 }, v);
    y = microsoft_node(&b, "FusedConv", NAMES(x, w, bias), at_text("activation", "Relu"));
    y = build_node(&b, "GlobalAveragePool", NAMES(y), NOTHING);
    y = build_node(&b, "Flatten", NAMES(y), NOTHING);
    w = build_floats(&b, 2, (int64_t[]){ 4, 4 }, v);
    y = microsoft_node(&b, "FusedGemm", NAMES(y, w, bias), at_text("activation", "Tanh"));
    y = microsoft_node(&b, "BiasGelu", NAMES(y, bias), NOTHING);
    w = build_floats(&b, 2, (int64_t[]){ 4, 4 }, v + 16);
    y = microsoft_node(&b, "FusedMatMul", NAMES(y, w), at_float("alpha", 0.5f));
    y = build_node(&b, "Unsqueeze", NAMES(y, build_ints(&b, 1, sizes)), NOTHING);
    y = microsoft_node(&b, "SkipLayerNormalization", NAMES(y, y, bias, bias, bias), NOTHING);
    y = microsoft_node(&b, "SkipSimplifiedLayerNormalization", NAMES(y, y, bias), NOTHING);
    y = microsoft_node(&b, "BiasAdd", NAMES(y, bias, y), NOTHING);
    y = microsoft_node(&b, "BiasSplitGelu", NAMES(y, bias), NOTHING);
    build_output(&b, y);
    fail_in_all_modes(CAT(build_bytes(&b), opset("com.microsoft", 1)), "fused");
}

/* Layer normalization without a scale, and SiLU, spelled out. */
static void test_patterns(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ 2, 6 }), *d, *v;

    (void)state;
    v = build_node(&b, "ReduceMean", NAMES(x), at_ints("axes", INTS(-1)));
    d = build_node(&b, "Sub", NAMES(x, v), NOTHING);
    v = build_node(&b, "ReduceMean", NAMES(build_node(&b, "Mul", NAMES(d, d), NOTHING)),
                   at_ints("axes", INTS(-1)));
    v = build_node(&b, "Add", NAMES(v, build_scalar(&b, 1e-5f)), NOTHING);
    v = build_node(&b, "Sqrt", NAMES(v), NOTHING);
    d = build_node(&b, "Div", NAMES(d, v), NOTHING);
    v = build_node(&b, "Sigmoid", NAMES(d), NOTHING);
    build_output(&b, build_node(&b, "Mul", NAMES(d, v), NOTHING));
    fail_in_all_modes(build_bytes(&b), "patterns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exporter_habits),  cmocka_unit_test(test_folded_weights),
        cmocka_unit_test(test_bodies),           cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_signal_operators), cmocka_unit_test(test_fused_operators),
        cmocka_unit_test(test_patterns),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
