/* test_quantize_group.c - group quantizer: scales and values against numpy (tools/golden_nbits.py),
 * 4-bit files in both forms, and the opset upgrade they need. */
#include "quant_rig.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "compress/wrap.h"
#include "quant/qscale.h"
#include "quant/presets.h"
#include "io/npz.h"
#include "make_model.h"
#include "onnx/edit.h"

#define PATH "/tmp/pare-group-%ld.onnx"

/* ---- against numpy --------------------------------------------------------------------------- */

static struct pare_named *file;
static int n_file;

static struct pare_tensor *find_array(const char *name, const char *what)
{
    char full[128];

    snprintf(full, sizeof(full), "group|%s|%s", name, what);
    for (int i = 0; i < n_file; i++)
        if (!strcmp(file[i].name, full))
            return &file[i].t;
    fail_msg("the golden file has no %s", full);
    return NULL;
}

static double squared_error(const struct pare_tensor *w, const struct pare_tensor *y)
{
    double sum = 0;

    for (int64_t i = 0; i < pare_numel(w); i++)
        sum += pow((double)pare_f32(w)[i] - (double)pare_f32(y)[i], 2);
    return sum;
}

static void check_numpy_case(const char *name)
{
    const struct pare_tensor *w = find_array(name, "w"), *scale = find_array(name, "scale");
    const struct pare_tensor *zero = find_array(name, "zero"), *want = find_array(name, "y");
    const int64_t *how = pare_i64(find_array(name, "how"));
    struct pare_tensor y = build_copy(w);
    struct quantizer_rig f;
    char settings[64];

    snprintf(settings, sizeof(settings), "group_size=%lld range=%s", (long long)how[4],
             how[5] ? "mse" : "minmax");
    quantizer_rig_open(&f, "group", settings, w, 1u << PARE_WEIGHT,
                       make_quant((int)how[0], how[1] != 0, how[2] != 0, how[3] ? 0 : 1));
    f.layer.in_axis = (int)how[3];
    ok(quantizer_rig_quantize(&f, PARE_WEIGHT, w, &y));
    if (how[5]) { /* other scales can be equally good, none is better */
        expect_near(squared_error(w, &y), squared_error(w, want), 1e-4 * squared_error(w, want));
    } else {
        for (int64_t i = 0; i < pare_numel(scale); i++) {
            expect_near(buffer_value(&f, "weight_scale", i), (double)pare_f32(scale)[i], 1e-9);
            expect_near(buffer_value(&f, "weight_zero_point", i), (double)pare_f32(zero)[i], 0);
        }
        for (int64_t i = 0; i < pare_numel(w); i++)
            expect_near((double)pare_f32(&y)[i], (double)pare_f32(want)[i], 1e-6);
    }
    assert_int_equal(pare_numel(quantizer_rig_buffer(&f, "weight_scale")), pare_numel(scale));
    quantizer_rig_close(&f);
}

static void test_scales_and_values_match_numpy(void **state)
{
    static const char *const names[] = { "rows",  "columns", "short",        "affine", "middle",
                                         "least", "eight",   "least_affine", "two",    "whole" };

    (void)state;
    ok(pare_npz_read(pool, "golden/nbits.npz", &file, &n_file, &rig_err));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        check_numpy_case(names[i]);
}

/* All-zero groups, infinities and NaN give finite scales. */
static void test_zeros_and_infinities(void **state)
{
    float x[64] = { 0 }, y[64];
    struct pare_tensor w = { PARE_F32, 2, { 1, 64 }, x }, out = { PARE_F32, 2, { 1, 64 }, y };
    struct quantizer_rig f;

    (void)state;
    x[33] = INFINITY;
    x[34] = NAN;
    x[35] = 7;
    quantizer_rig_open(&f, "group", "group_size=32", &w, 1u << PARE_WEIGHT,
                       make_quant(4, true, true, 0));
    f.layer.in_axis = 1;
    ok(quantizer_rig_quantize(&f, PARE_WEIGHT, &w, &out));
    assert_true(buffer_value(&f, "weight_scale", 0) > 0 &&
                buffer_value(&f, "weight_scale", 0) < 1e-6);
    expect_near((double)y[0], 0, 0);
    for (int i = 0; i < 64; i++)
        assert_true(isfinite(y[i]));
    assert_true(buffer_value(&f, "weight_scale", 1) <= 1.0001);
    quantizer_rig_close(&f);
}

/* ---- files --------------------------------------------------------------------------------- */

struct exported {
    struct pare_model *model, *file;
    struct pare_compression *compression;
    char path[64];
    long bytes[2];
};

static long file_size(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    fclose(f);
    return n;
}

static void quantize_and_export(struct exported *m, const char *net, const int64_t chw[3],
                                const char *settings, bool nbits)
{
    struct pare_compression_opts o = { .settings = settings, .threads = 2 };
    struct pare_export e = { .onnx = m->path, .nbits = nbits };
    struct pare_rules rules;
    struct pare_graph *g;

    snprintf(m->path, sizeof(m->path), PATH, (long)getpid());
    ok(pare_model_new(net, chw, 10, 3, &m->model, &rig_err));
    ok(pare_model_save(m->model, m->path, NULL, &rig_err));
    m->bytes[0] = file_size(m->path);
    ok(pare_model_shapes(m->model, pool, &g, &rig_err));
    ok(pare_preset("w4", g, pool, &o.quantizer, &rules, &rig_err));
    o.rule = rules.rule;
    o.n_rules = rules.n;
    ok(pare_compression_new(m->model, &o, &m->compression, &rig_err));
    ok(pare_compression_compress(m->compression, &rig_err));
    ok(pare_compression_export(m->compression, &e, &rig_err));
    m->bytes[1] = file_size(m->path);
    ok(pare_model_load(m->path, &m->file, &rig_err));
}

static void free_exported(struct exported *m)
{
    pare_compression_free(m->compression);
    pare_model_free(m->model);
    pare_model_free(m->file);
    unlink(m->path);
}

static int count_nodes(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

/* Expects the same outputs of the file and of the quantized model. */
static void expect_same_outputs(const struct exported *m, const int64_t chw[3], bool reference)
{
    const int64_t dim[4] = { 2, chw[0], chw[1], chw[2] };
    struct pare_tensor x = build_tensor(PARE_F32, 4, dim), y[2];
    struct pare_plan_opts o = { .in = &x, .reference = reference, .threads = 1 };
    const struct pare_model *both[2] = { m->model, m->file };

    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)(i % 17) / 8 - 1;
    for (int i = 0; i < 2; i++) {
        struct pare_tensor out;
        struct pare_plan *p;

        ok(pare_plan_make(both[i], &o, &p, &rig_err));
        ok(pare_plan_execute(p, &x, &out, &rig_err));
        y[i] = build_copy(&out);
        pare_plan_free(p);
    }
    for (int64_t i = 0; i < pare_numel(&y[0]); i++)
        expect_near((double)pare_f32(&y[1])[i], (double)pare_f32(&y[0])[i], 2e-5);
}

static void test_files_of_4_bit_weights(void **state)
{
    static const char *const settings[] = { "", "group_size=32 range=minmax", "group_size=0" };
    const int64_t gray[3] = { 1, 28, 28 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct exported m = { 0 };
        const struct pare_value *w;

        quantize_and_export(&m, "lenet", gray, settings[i], false);
        w = pare_graph_find(m.file->graph, "fc1.weight_quantized");
        assert_non_null(w);
        assert_int_equal(w->t.dtype, PARE_I4);
        w = pare_graph_find(m.file->graph, "fc1.weight_scale");
        assert_int_equal(w->t.rank, i == 2 ? 1 : 2);
        assert_int_equal(pare_numel(&w->t), i == 2 ? 500 : i == 1 ? 500 * 25 : 500 * 13);
        assert_int_equal(pare_graph_find(m.file->graph, "conv1.weight_quantized")->t.dtype,
                         PARE_I8);
        assert_true(m.bytes[1] * 5 < m.bytes[0]);
        expect_same_outputs(&m, gray, true);
        expect_same_outputs(&m, gray, false);
        free_exported(&m);
    }
}

/* Groups of different sizes, of matrices in both orientations; attention has both. */
static void test_files_of_matmul_nbits(void **state)
{
    const int64_t color[3] = { 3, 32, 32 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct exported m = { 0 };

        quantize_and_export(&m, "vit-tiny", color, i ? "group_size=32" : "", true);
        assert_true(count_nodes(m.file, "MatMulNBits") > 8);
        assert_int_equal(count_nodes(m.file, "Gemm") + count_nodes(m.file, "DequantizeLinear"), 1);
        expect_same_outputs(&m, color, true);
        expect_same_outputs(&m, color, false);
        free_exported(&m);
    }
}

static void test_matmul_nbits_needs_groups(void **state)
{
    const int64_t gray[3] = { 1, 28, 28 };
    struct exported m = { 0 };
    struct pare_export e = { .onnx = m.path, .nbits = true };

    (void)state;
    quantize_and_export(&m, "lenet", gray, "group_size=0", false);
    assert_int_equal(pare_compression_export(m.compression, &e, &rig_err), PARE_ECONFIG);
    assert_non_null(strstr(rig_err.msg, "no layer can be exported as MatMulNBits"));
    free_exported(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales_and_values_match_numpy),
        cmocka_unit_test(test_zeros_and_infinities),
        cmocka_unit_test(test_files_of_4_bit_weights),
        cmocka_unit_test(test_files_of_matmul_nbits),
        cmocka_unit_test(test_matmul_nbits_needs_groups),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
