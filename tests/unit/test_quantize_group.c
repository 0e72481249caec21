/* test_quantize_group.c - group quantizer: scales and values against numpy (tools/golden_nbits.py),
 * 4-bit files in both forms, and the opset upgrade they need. */
#include "quant_rig.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "quant/qscale.h"
#include "quant/presets.h"
#include "io/npz.h"
#include "make_model.h"
#include "onnx/edit.h"

#define PATH "/tmp/pare-group-%ld.onnx"

/* ---- against numpy --------------------------------------------------------------------------- */

static struct pare_named *file;
static int n_file;

static struct pare_tensor *find(const char *name, const char *what)
{
    char full[128];

    snprintf(full, sizeof(full), "group|%s|%s", name, what);
    for (int i = 0; i < n_file; i++)
        if (!strcmp(file[i].name, full))
            return &file[i].t;
    fail_msg("no %s", full);
    return NULL;
}

static double error_of(const struct pare_tensor *w, const struct pare_tensor *y)
{
    double sum = 0;

    for (int64_t i = 0; i < pare_numel(w); i++)
        sum += pow((double)pare_f32(w)[i] - (double)pare_f32(y)[i], 2);
    return sum;
}

static void numpy_case(const char *name)
{
    const struct pare_tensor *w = find(name, "w"), *scale = find(name, "scale");
    const struct pare_tensor *zero = find(name, "zero"), *want = find(name, "y");
    const int64_t *how = pare_i64(find(name, "how"));
    struct pare_tensor y = build_copy(w);
    struct alone f;
    char settings[64];

    snprintf(settings, sizeof(settings), "group_size=%lld range=%s", (long long)how[4],
             how[5] ? "mse" : "minmax");
    alone_open(&f, "group", settings, w, 1u << PARE_WEIGHT,
               make_quant((int)how[0], how[1] != 0, how[2] != 0, how[3] ? 0 : 1));
    f.layer.in_axis = (int)how[3];
    ok(alone_round(&f, PARE_WEIGHT, w, &y));
    if (how[5]) { /* other candidates may tie; none is better */
        near(error_of(w, &y), error_of(w, want), 1e-4 * error_of(w, want));
    } else {
        for (int64_t i = 0; i < pare_numel(scale); i++) {
            near(value(&f, "weight_scale", i), (double)pare_f32(scale)[i], 1e-9);
            near(value(&f, "weight_zero_point", i), (double)pare_f32(zero)[i], 0);
        }
        for (int64_t i = 0; i < pare_numel(w); i++)
            near((double)pare_f32(&y)[i], (double)pare_f32(want)[i], 1e-6);
    }
    assert_int_equal(pare_numel(alone_buffer(&f, "weight_scale")), pare_numel(scale));
    alone_close(&f);
}

static void as_numpy_rounds(void **state)
{
    static const char *const names[] = { "rows",  "columns", "short",        "affine", "middle",
                                         "least", "eight",   "least_affine", "two",    "whole" };

    (void)state;
    ok(pare_npz_read(pool, "golden/nbits.npz", &file, &n_file, &rig_err));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        numpy_case(names[i]);
}

/* All-zero groups, infinities and NaN do not spoil a group's scale. */
static void odd_numbers(void **state)
{
    float x[64] = { 0 }, y[64];
    struct pare_tensor w = { PARE_F32, 2, { 1, 64 }, x }, out = { PARE_F32, 2, { 1, 64 }, y };
    struct alone f;

    (void)state;
    x[33] = INFINITY;
    x[34] = NAN;
    x[35] = 7;
    alone_open(&f, "group", "group_size=32", &w, 1u << PARE_WEIGHT, make_quant(4, true, true, 0));
    f.layer.in_axis = 1;
    ok(alone_round(&f, PARE_WEIGHT, &w, &out));
    assert_true(value(&f, "weight_scale", 0) > 0 && value(&f, "weight_scale", 0) < 1e-6);
    near((double)y[0], 0, 0);
    for (int i = 0; i < 64; i++)
        assert_true(isfinite(y[i]));
    assert_true(value(&f, "weight_scale", 1) <= 1.0001);
    alone_close(&f);
}

/* ---- files --------------------------------------------------------------------------------- */

struct made {
    struct pare_model *model, *file;
    struct pare_compression *run;
    char path[64];
    long bytes[2];
};

static long size_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    fclose(f);
    return n;
}

static void make(struct made *m, const char *net, const int64_t chw[3], const char *settings,
                 bool nbits)
{
    struct pare_compression_opts o = { .settings = settings, .threads = 2 };
    struct pare_export e = { .onnx = m->path, .nbits = nbits };
    struct pare_rules rules;

    snprintf(m->path, sizeof(m->path), PATH, (long)getpid());
    ok(pare_model_new(net, chw, 10, 3, &m->model, &rig_err));
    ok(pare_model_save(m->model, m->path, NULL, &rig_err));
    m->bytes[0] = size_of(m->path);
    ok(pare_preset("w4", m->model, pool, &o.quantizer, &rules, &rig_err));
    o.rule = rules.rule;
    o.n_rules = rules.n;
    ok(pare_compression_new(m->model, &o, &m->run, &rig_err));
    ok(pare_compression_compress(m->run, &rig_err));
    ok(pare_compression_export(m->run, &e, &rig_err));
    m->bytes[1] = size_of(m->path);
    ok(pare_model_load(m->path, &m->file, &rig_err));
}

static void drop(struct made *m)
{
    pare_compression_free(m->run);
    pare_model_free(m->model);
    pare_model_free(m->file);
    unlink(m->path);
}

static int count(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

/* The file computes the same as the quantized model. */
static void same_results(const struct made *m, const int64_t chw[3], bool reference)
{
    const int64_t dim[4] = { 2, chw[0], chw[1], chw[2] };
    struct pare_tensor x = build_tensor(PARE_F32, 4, dim), y[2];
    struct pare_plan_opts o = { .in = &x, .reference = reference, .threads = 1 };
    const struct pare_model *both[2] = { m->model, m->file };

    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32(&x)[i] = (float)(i % 17) / 8 - 1;
    for (int i = 0; i < 2; i++) {
        struct pare_tensor out;
        struct pare_plan *p;

        ok(pare_plan_make(both[i], &o, &p, &rig_err));
        ok(pare_plan_execute(p, &x, &out, &rig_err));
        y[i] = build_copy(&out);
        pare_plan_free(p);
    }
    for (int64_t i = 0; i < pare_numel(&y[0]); i++)
        near((double)pare_f32(&y[1])[i], (double)pare_f32(&y[0])[i], 2e-5);
}

static void files_of_four_bits(void **state)
{
    static const char *const settings[] = { "", "group_size=32 range=minmax", "group_size=0" };
    const int64_t gray[3] = { 1, 28, 28 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct made m = { 0 };
        const struct pare_value *w;

        make(&m, "lenet", gray, settings[i], false);
        w = pare_graph_find(m.file->graph, "fc1.weight_quantized");
        assert_non_null(w);
        assert_int_equal(w->t.dtype, PARE_I4);
        w = pare_graph_find(m.file->graph, "fc1.weight_scale");
        assert_int_equal(w->t.rank, i == 2 ? 1 : 2);
        assert_int_equal(pare_numel(&w->t), i == 2 ? 500 : i == 1 ? 500 * 25 : 500 * 13);
        assert_int_equal(pare_graph_find(m.file->graph, "conv1.weight_quantized")->t.dtype,
                         PARE_I8);
        assert_true(m.bytes[1] * 5 < m.bytes[0]);
        same_results(&m, gray, true);
        same_results(&m, gray, false);
        drop(&m);
    }
}

/* Groups of any size, of matrices in both orientations; attention has both. */
static void files_of_packed_products(void **state)
{
    const int64_t colour[3] = { 3, 32, 32 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct made m = { 0 };

        make(&m, "vit-tiny", colour, i ? "group_size=32" : "", true);
        assert_true(count(m.file, "MatMulNBits") > 8);
        assert_int_equal(count(m.file, "Gemm") + count(m.file, "DequantizeLinear"), 1);
        same_results(&m, colour, true);
        same_results(&m, colour, false);
        drop(&m);
    }
}

static void products_need_groups(void **state)
{
    const int64_t gray[3] = { 1, 28, 28 };
    struct made m = { 0 };
    struct pare_export e = { .onnx = m.path, .nbits = true };

    (void)state;
    make(&m, "lenet", gray, "group_size=0", false);
    assert_int_equal(pare_compression_export(m.run, &e, &rig_err), PARE_ECONFIG);
    assert_non_null(strstr(rig_err.msg, "no layer can be exported as MatMulNBits"));
    drop(&m);
}

/* ---- opset upgrade --------------------------------------------------------------------------- */

static void raised(const struct build *b, const char *refusal, struct pare_model **m)
{
    struct pare_model *old = build_model(b);
    struct pare_edit *e;

    ok(pare_edit_new(old, &e, &rig_err));
    if (refusal) {
        assert_int_equal(pare_edit_opset(e, 21, &rig_err), PARE_EUNSUPPORTED);
        if (!strstr(rig_err.msg, refusal))
            fail_msg("'%s' does not say '%s'", rig_err.msg, refusal);
    } else {
        char path[64];

        snprintf(path, sizeof(path), PATH, (long)getpid());
        ok(pare_edit_opset(e, 21, &rig_err));
        assert_int_equal(pare_edit_version(e), 21);
        ok(pare_edit_save(e, path, &rig_err));
        ok(pare_model_load(path, m, &rig_err));
        unlink(path);
    }
    pare_edit_free(e);
    pare_model_free(old);
}

static struct pare_tensor run(const struct pare_model *m, const struct pare_tensor *x)
{
    struct pare_plan_opts o = { .in = x };
    struct pare_tensor out, copy;
    struct pare_plan *p;

    ok(pare_plan_make(m, &o, &p, &rig_err));
    ok(pare_plan_execute(p, x, &out, &rig_err));
    copy = build_copy(&out);
    pare_plan_free(p);
    return copy;
}

static void operators_get_their_new_form(void **state)
{
    const int64_t dim[4] = { 2, 4, 6, 3 };
    struct build b = { .opset = 17 };
    struct pare_tensor x = build_tensor(PARE_F32, 4, dim), before, after;
    struct pare_model *old, *new;
    const char *part[2], *y;

    (void)state;
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32(&x)[i] = (float)(i * 7 % 31);
    y = build_input(&b, PARE_F32, 4, dim);
    build_node_outs(&b, "Split", 1, &y, at_int("axis", 2), 2, part);
    part[0] = build_node(&b, "ReduceMean", NAMES(part[0]), at_ints("axes", INTS(1, -1)));
    part[1] = build_node(&b, "ReduceMax", NAMES(part[1]), at_ints("axes", INTS(1, 3)));
    y = build_node(&b, "Sub", NAMES(part[0], part[1]), NOTHING);
    y = build_node(&b, "ReduceL2", NAMES(y), at_int("keepdims", 0));
    build_output(&b, y);
    raised(&b, NULL, &new);
    old = build_model(&b);
    before = run(old, &x);
    after = run(new, &x);
    assert_memory_equal(before.data, after.data, sizeof(float));
    pare_model_free(old);
    pare_model_free(new);
}

static void what_cannot_be_said_is_refused(void **state)
{
    const int64_t dim[4] = { 1, 4, 2, 2 }, c = 2;
    const float one[4] = { 1, 1, 1, 1 };
    struct build b = { .opset = 18 }, old = { .opset = 9 }, outer = { .opset = 17 };
    struct build branch = { .prefix = "b" };
    const bool yes = true;
    const char *x, *s;

    (void)state;
    x = build_input(&b, PARE_F32, 4, dim);
    s = build_floats(&b, 1, &c, one);
    build_output(&b, build_node(&b, "GroupNormalization", NAMES(x, s, s), at_int("num_groups", 2)));
    raised(&b, "GroupNormalization changed in 21", NULL);

    x = build_input(&old, PARE_F32, 4, dim);
    build_output(&old, build_node(&old, "Softmax", NAMES(x), NOTHING));
    raised(&old, "Softmax changed in 13", NULL);

    x = build_input(&outer, PARE_F32, 4, dim);
    build_output(&branch, build_node(&branch, "ReduceMean", NAMES(x), at_ints("axes", INTS(1))));
    s = build_const(&outer, PARE_BOOL, 0, NULL, &yes);
    build_output(&outer, build_node(&outer, "If", NAMES(s),
                                    CAT(at_graph("then_branch", &branch),
                                        at_graph("else_branch", &branch))));
    raised(&outer, "ReduceMean (in a subgraph) changed in 18", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_numpy_rounds),
        cmocka_unit_test(odd_numbers),
        cmocka_unit_test(files_of_four_bits),
        cmocka_unit_test(files_of_packed_products),
        cmocka_unit_test(products_need_groups),
        cmocka_unit_test(operators_get_their_new_form),
        cmocka_unit_test(what_cannot_be_said_is_refused),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
