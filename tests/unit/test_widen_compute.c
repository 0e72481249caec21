/* test_widen_compute.c - models that compute in float16 or float64: layers are pruned and quantized
 * in float32 and written in their type, also where bodies of If read the weights. */
#include "make_model.h"

#include <pare/compress.h>

#include <math.h>
#include <stdio.h>

#include "plan/plan.h"

#define FILE_NAME "widen_compute.tmp.onnx"
#define K 8
#define N 4

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

static const char *constant(struct build *b, int type, int rank, const int64_t *dim)
{
    int64_t n = 1;
    float *v;
    void *to;

    for (int i = 0; i < rank; i++)
        n *= dim[i];
    v = pare_alloc(pool, (size_t)n, sizeof(*v));
    to = pare_alloc(pool, (size_t)n, 8);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(i * 37 % 101 + 1) / 128 * (i % 2 ? -1.0f : 1.0f);
    ok(pare_convert((enum pare_dtype)type, to, PARE_F32, v, n, &err));
    return build_const(b, type, rank, dim, to);
}

/* y = x W + b, or c ? x W + b : b - x W; all in `type`. */
static struct bin linear(int type, bool body)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, type, 2, (int64_t[]){ -1, K }), *y;
    const char *w = constant(&b, type, 2, (int64_t[]){ K, N });
    const char *bias = constant(&b, type, 1, (int64_t[]){ N });

    if (body) {
        struct build then = { .prefix = "t" }, no = { .prefix = "e" };
        const char *c = build_input(&b, PARE_BOOL, 0, NULL), *v;

        v = build_node(&then, "MatMul", NAMES(x, w), NOTHING);
        v = build_node(&then, "Add", NAMES(v, bias), NOTHING);
        build_put(&then, msg(12, build_info(v, type, -1, NULL)));
        v = build_node(&no, "MatMul", NAMES(x, w), NOTHING);
        v = build_node(&no, "Sub", NAMES(bias, v), NOTHING);
        build_put(&no, msg(12, build_info(v, type, -1, NULL)));
        y = build_node(&b, "If", NAMES(c),
                       CAT(at_graph("then_branch", &then), at_graph("else_branch", &no)));
    } else {
        y = build_node(&b, "MatMul", NAMES(x, w), NOTHING);
        y = build_node(&b, "Add", NAMES(y, bias), NOTHING);
    }
    build_put(&b, msg(12, build_info(y, type, 2, (int64_t[]){ -1, N })));
    return build_bytes(&b);
}

static struct pare_model *parse(struct bin bytes, bool widen)
{
    const struct pare_load_opts how = { .widen = widen };
    struct pare_model *m = NULL;

    ok(pare_model_parse_with(bytes.p, bytes.n, NULL, &how, &m, &err));
    return m;
}

/* The result for 3 rows, as float32. */
static struct pare_tensor run(const struct pare_model *m, int type, uint8_t c, bool body)
{
    struct pare_tensor f = build_tensor(PARE_F32, 2, (int64_t[]){ 3, K }), out, y;
    struct pare_tensor in[2] = { build_tensor(type, 2, f.dim), { .dtype = PARE_BOOL, .data = &c } };
    struct pare_plan_opts o = { .threads = 1, .in = in, .n_in = 1 + body };
    struct pare_plan *p = NULL;

    for (int i = 0; i < 3 * K; i++)
        pare_f32_mut(&f)[i] = (float)(i % 7 - 3) / 4;
    ok(pare_convert((enum pare_dtype)type, in[0].data, PARE_F32, f.data, 3 * K, &err));
    ok(pare_plan_new(m, &o, &p, &err));
    ok(pare_plan_run(p, in, 1 + body, &out, 1, &err));
    assert_int_equal(out.dtype, type);
    y = build_tensor(PARE_F32, 2, out.dim);
    ok(pare_convert(PARE_F32, y.data, out.dtype, out.data, pare_numel(&out), &err));
    pare_plan_free(p);
    return y;
}

static double difference(const struct pare_tensor *a, const struct pare_tensor *b)
{
    double most = 0;

    assert_int_equal(pare_numel(a), 3 * N);
    assert_int_equal(pare_numel(b), 3 * N);
    for (int i = 0; i < 3 * N; i++)
        most = fmax(most, fabs((double)pare_f32(a)[i] - (double)pare_f32(b)[i]));
    return most;
}

/* The file as it is written: without intake. */
static struct pare_model *saved(const struct pare_model *m)
{
    const struct pare_load_opts how = { .as_is = true };
    struct pare_model *file = NULL;

    ok(pare_model_save(m, FILE_NAME, NULL, &err));
    ok(pare_model_load_with(FILE_NAME, &how, &file, &err));
    remove(FILE_NAME);
    return file;
}

/* Initializers of this type and rank. */
static int count(const struct pare_model *m, int type, int rank)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_values; i++) {
        const struct pare_value *v = m->graph->value[i];

        n += v->flags & PARE_V_CONST && !v->maker && (int)v->t.dtype == type && v->t.rank == rank;
    }
    return n;
}

static void check_pruned(int type, bool body)
{
    struct pare_prune_opts o = { .size = sizeof(o), .pruner = "level", .sparsity = 0.5 };
    struct pare_model *m = parse(linear(type, body), true), *out = NULL, *file;
    struct pare_model *was = parse(linear(type, body), false);

    ok(pare_prune(m, &o, &out, NULL, &err));
    file = saved(out);
    assert_int_equal(count(file, type, 2), 1);
    assert_int_equal(count(file, PARE_F32, 2), 0);
    assert_int_equal(file->graph->n_nodes, body ? 1 : 2); /* as in the file that was read */
    for (uint8_t c = 0; c < 2; c++) {
        struct pare_tensor a = run(out, type, c, body), b = run(file, type, c, body);
        struct pare_tensor before = run(was, type, c, body);

        assert_true(difference(&a, &b) < 4e-3); /* one rounding to float16 */
        assert_true(difference(&a, &before) > 1e-2);
    }
    pare_model_free(file);
    pare_model_free(out);
    pare_model_free(was);
    pare_model_free(m);
}

static void test_layers_are_pruned_and_written_in_their_type(void **state)
{
    static const int types[] = { PARE_F16, PARE_F64, PARE_BF16 };

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int body = 0; body < 2; body++)
            check_pruned(types[i], body);
}

static void test_layers_are_quantized(void **state)
{
    static const char *const presets[] = { "int8-weights", "int8-dynamic" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_quantize_opts o = { .size = sizeof(o), .preset = presets[i] };
        struct pare_model *m = parse(linear(PARE_F16, false), true), *out = NULL, *file;
        struct pare_model *was = parse(linear(PARE_F16, false), false);
        struct pare_tensor a, b;

        ok(pare_quantize(m, &o, &out, NULL, &err));
        file = saved(out);
        assert_int_equal(count(file, PARE_I8, 2), 1);
        a = run(was, PARE_F16, 1, false);
        b = run(file, PARE_F16, 1, false);
        assert_true(difference(&a, &b) < 0.02);
        pare_model_free(file);
        pare_model_free(out);
        pare_model_free(was);
        pare_model_free(m);
    }
}

/* Nothing else changed the model: the bytes that were read are written. */
static void test_an_unchanged_model_is_written_as_it_was(void **state)
{
    struct pare_model *m = parse(linear(PARE_F16, false), true), *file = saved(m);

    (void)state;
    assert_int_equal(file->graph->n_nodes, 2);
    assert_int_equal(count(file, PARE_F16, 2), 1);
    pare_model_free(file);
    pare_model_free(m);
}

/* Every allocation of loading and of the dynamic export, with bodies, fails once: an error, no
 * leak. */
static void test_out_of_memory(void **state)
{
    const struct pare_load_opts how = { .widen = true };
    struct bin bytes = linear(PARE_F16, true);
    int failures = 0;

    (void)state;
    for (int n = -1; n > -100000; n -= n > -300 ? 1 : 1 - n / 50) {
        struct pare_quantize_opts o = { .size = sizeof(o), .preset = "int8-weights" };
        struct pare_model *m = NULL, *out = NULL;
        bool reached;
        int rc;

        pare_oom_countdown = n;
        rc = pare_model_parse_with(bytes.p, bytes.n, NULL, &how, &m, &err);
        if (!rc)
            rc = pare_quantize(m, &o, &out, NULL, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: %s", n, err.msg);
        failures += rc != 0;
        pare_model_free(out);
        pare_model_free(m);
        if (!reached)
            break;
    }
    assert_true(failures > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_layers_are_pruned_and_written_in_their_type, make_pool,
                                        drop_pool),
        cmocka_unit_test_setup_teardown(test_layers_are_quantized, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_out_of_memory, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_an_unchanged_model_is_written_as_it_was, make_pool,
                                        drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
