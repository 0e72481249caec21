/* test_export_qdq.c - QDQ export: the file's integers are exactly the quantized values. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "quant/qscale.h"
#include "quant/presets.h"
#include "compress/registry.h"
#include "compress/wrap.h"
#include "onnx/fold_norm.h"

static struct pare_err err;

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

/* ---- a quantizer with the range of the first batch ------------------------------------------- */

static int quantize_by_range(struct pare_layer *l, enum pare_quant_site site,
                             const struct pare_tensor *x, struct pare_tensor *y, bool again,
                             struct pare_err *e)
{
    const struct pare_quant *q = pare_layer_quant(l, site);
    int64_t n = q->axis < 0 ? 1 : x->dim[q->axis], inner = 1;
    struct pare_tensor *s = pare_layer_scale(l, site, n, e);
    struct pare_tensor *z = pare_layer_zero_point(l, site, n, e);

    if (!s || !z)
        return e->code;
    for (int i = q->axis + 1; i < x->rank && q->axis >= 0; i++)
        inner *= x->dim[i];
    for (int64_t c = 0; c < n && (again || pare_f32(s)[c] == 0); c++) {
        double lo = 0, hi = 0;

        for (int64_t i = 0; i < pare_numel(x); i++)
            if (q->axis < 0 || i / inner % n == c) {
                lo = fmin(lo, (double)pare_f32(x)[i]);
                hi = fmax(hi, (double)pare_f32_mut(x)[i]);
            }
        pare_quant_fit(q, lo, hi, pare_f32_mut(s) + c, pare_f32_mut(z) + c);
    }
    pare_quant_apply(q, x, pare_f32(s), pare_f32(z), y);
    return 0;
}

static int quantize_weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                           struct pare_err *e)
{
    return quantize_by_range(l, PARE_WEIGHT, x, y, true, e);
}

static int quantize_input(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                          struct pare_err *e)
{
    return quantize_by_range(l, PARE_INPUT, x, y, false, e);
}

static int quantize_output(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                           struct pare_err *e)
{
    return quantize_by_range(l, PARE_OUTPUT, x, y, false, e);
}

static const struct pare_algorithm range_quantizer = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "first",
    .doc = "For this test.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = quantize_weight,
            .input = quantize_input,
            .output = quantize_output,
        },
};

/* A quantizer that writes signs and sets no scale. */
static int quantize_to_sign(struct pare_layer *l, const struct pare_tensor *x,
                            struct pare_tensor *y, struct pare_err *e)
{
    (void)l;
    (void)e;
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32_mut(y)[i] = pare_f32(x)[i] < 0 ? -0.7f : 0.7f;
    return 0;
}

static int quantize_to_cube(struct pare_layer *l, const struct pare_tensor *x,
                            struct pare_tensor *y, struct pare_err *e)
{
    (void)l;
    (void)e;
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32_mut(y)[i] = powf(pare_f32(x)[i], 3);
    return 0;
}

static const struct pare_algorithm sign_quantizer = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "signs",
    .doc = "For this test.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = quantize_to_sign,
            .output = quantize_to_sign,
        },
};
static const struct pare_algorithm cubic = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "cubic",
    .doc = "For this test.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = quantize_to_cube,
        },
};

/* ---- a model, its compression, its file ------------------------------------------------------ */

struct job {
    struct pare_registry *registry;
    struct pare_model *model, *file;
    struct pare_compression *compression;
    char path[64];
    float in[3 * 32 * 32 * 2], out[2][64];
    const int64_t *shape;
    bool reference;
};

static struct job *open_job(const char *net, const int64_t *shape, const char *quantizer,
                            const char *config)
{
    struct job *j = calloc(1, sizeof(*j));
    struct pare_compression_opts o = { .quantizer = quantizer, .config = config };
    struct pare_rng rng;

    j->registry = pare_registry_new(&err);
    j->shape = shape;
    j->reference = true;
    o.registry = j->registry;
    snprintf(j->path, sizeof(j->path), "/tmp/pare-qdq-%ld.onnx", (long)getpid());
    OK(pare_add_quantizer(j->registry, &range_quantizer, &err));
    OK(pare_add_quantizer(j->registry, &sign_quantizer, &err));
    OK(pare_add_quantizer(j->registry, &cubic, &err));
    OK(pare_model_new(net, shape, 10, 1, &j->model, &err));
    OK(pare_compression_new(j->model, &o, &j->compression, &err));
    pare_rng_init(&rng, 7);
    for (size_t i = 0; i < sizeof(j->in) / sizeof(*j->in); i++)
        j->in[i] = (float)(pare_rng_uniform(&rng) * 2 - 1);
    return j;
}

static void run_model(const struct job *j, const struct pare_model *m, float *out)
{
    struct pare_tensor x = { .dtype = PARE_F32, .rank = 4, .data = (void *)(uintptr_t)j->in };
    struct pare_plan_opts o = { .batch = 2, .threads = 1, .reference = j->reference };
    struct pare_plan *p;
    struct pare_tensor y;

    x.dim[0] = 2;
    memcpy(x.dim + 1, j->shape, 3 * sizeof(int64_t));
    OK(pare_plan_make(m, &o, &p, &err));
    OK(pare_plan_execute(p, &x, &y, &err));
    assert_int_equal(pare_numel(&y), 20);
    memcpy(out, y.data, 20 * sizeof(float));
    pare_plan_free(p);
}

/* The quantized model's outputs in out[0], the file's in out[1]. */
static void export_and_run(struct job *j, bool qoperator)
{
    struct pare_export e = { .onnx = j->path, .qoperator = qoperator };

    OK(pare_compression_compress(j->compression, &err));
    run_model(j, j->model, j->out[0]); /* finds the ranges */
    run_model(j, j->model, j->out[0]);
    OK(pare_compression_export(j->compression, &e, &err));
    pare_model_free(j->file);
    OK(pare_model_load(j->path, &j->file, &err));
    run_model(j, j->file, j->out[1]);
}

static void close_job(struct job *j)
{
    unlink(j->path);
    pare_compression_free(j->compression);
    pare_model_free(j->model);
    pare_model_free(j->file);
    pare_registry_free(j->registry);
    free(j);
}

static double largest_difference(const struct job *j)
{
    double largest_value = 0;

    for (int i = 0; i < 20; i++)
        largest_value = fmax(largest_value, fabs((double)(j->out[0][i] - j->out[1][i])));
    return largest_value;
}

static double largest_output(const struct job *j)
{
    double largest_value = 0;

    for (int i = 0; i < 20; i++)
        largest_value = fmax(largest_value, fabs((double)j->out[0][i]));
    return largest_value;
}

static int count_nodes(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

static double output_step(struct job *j, const char *layer)
{
    for (int i = 0; i < pare_compression_layers(j->compression); i++)
        if (!strcmp(pare_layer_name(pare_compression_layer(j->compression, i)), layer)) {
            struct pare_tensor *s = pare_layer_scale(pare_compression_layer(j->compression, i),
                                                     PARE_OUTPUT, 1, &err);
            return (double)pare_f32(s)[0];
        }
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

static const int64_t gray[3] = { 1, 28, 28 }, color[3] = { 3, 32, 32 };

static void test_int8_weights_take_a_quarter(void **state)
{
    struct job *j = open_job(
        "lenet", gray, "naive",
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": [\"default\"]}]");
    const struct pare_value *w;
    struct stat file;
    int64_t params = 0;

    (void)state;
    export_and_run(j, false);
    assert_true(largest_difference(j) == 0);
    assert_int_equal(count_nodes(j->file, "DequantizeLinear"),
                     pare_compression_layers(j->compression));
    w = pare_graph_find(j->file->graph, "conv1.weight_quantized");
    assert_non_null(w);
    assert_int_equal(w->t.dtype, PARE_I8);
    assert_int_equal(stat(j->path, &file), 0);
    for (int i = 0; i < pare_compression_layers(j->compression); i++)
        params += pare_numel(pare_layer_weight(pare_compression_layer(j->compression, i)));
    assert_in_range(file.st_size, params, params * 108 / 100);
    close_job(j);
}

#define ALL(scheme)                                                                       \
    "[{\"quant_types\": [\"weight\", \"input\", \"output\"], \"quant_bits\": 8, "         \
    "\"quant_dtype\": {\"weight\": \"int\", \"input\": \"uint\", \"output\": \"uint\"}, " \
    "\"quant_scheme\": {\"weight\": \"" scheme "\"}, \"op_types\": [\"Conv2d\", \"Linear\"]}]"

/* The file quantizes biases, the model does not: without biases the outputs are bit-identical. */
static void test_file_matches_quantized_model(void **state)
{
    static const char outputs[] =
        "[{\"quant_types\": [\"output\"], \"quant_bits\": 8, \"quant_scheme\": "
        "\"per_channel_affine\", \"op_types\": [\"Conv2d\"]}]";
    static const char *const configs[] = {
        ALL("per_channel_symmetric"),
        ALL("per_tensor_symmetric"),
        "[{\"quant_types\": [\"weight\", \"input\"], \"quant_bits\": {\"weight\": 4, \"input\": "
        "5}, \"quant_dtype\": \"int\", \"quant_scheme\": \"per_tensor_affine\", \"op_types\": "
        "[\"Conv2d\", \"Linear\"]}, {\"quant_types\": [\"output\"], \"quant_bits\": 3, "
        "\"op_types\": [\"ReLU\"]}]",
        outputs,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(configs) / sizeof(*configs); i++) {
        struct job *j = open_job("lenet", gray, "first", configs[i]);

        for (int k = 0; k < pare_compression_layers(j->compression); k++) {
            struct pare_layer *l = pare_compression_layer(j->compression, k);

            if (l->bias)
                memset(l->bias->t.data, 0, (size_t)pare_numel(&l->bias->t) * sizeof(float));
        }
        export_and_run(j, false);
        assert_true(largest_difference(j) == 0);
        close_job(j);
    }
}

static void test_biases_are_int32(void **state)
{
    struct job *j = open_job("lenet", gray, "first", ALL("per_channel_symmetric"));
    const struct pare_value *b, *s, *w, *x;

    (void)state;
    export_and_run(j, false);
    b = pare_graph_find(j->file->graph, "conv2.bias_quantized");
    s = pare_graph_find(j->file->graph, "conv2.bias_scale");
    w = pare_graph_find(j->file->graph, "conv2.weight_scale");
    assert_non_null(b);
    assert_int_equal(b->t.dtype, PARE_I32);
    x = pare_graph_find(j->file->graph, "conv2.weight");
    assert_non_null(x);
    assert_int_equal(pare_numel(&s->t), pare_numel(&w->t));
    for (int64_t i = 0; i < pare_numel(&b->t); i++) {
        double v = (double)pare_f32(&s->t)[i] * ((const int32_t *)b->t.data)[i];
        const struct pare_layer *l = pare_compression_layer(j->compression, 1);

        assert_true(fabs(v - (double)pare_f32(&l->bias->t)[i]) <= (double)pare_f32(&s->t)[i]);
    }
    assert_true(
        largest_difference(j) <=
        1.001 * output_step(j, pare_layer_name(pare_compression_layer(
                                   j->compression, pare_compression_layers(j->compression) - 1))));
    close_job(j);
}

static void test_qoperator_format(void **state)
{
    struct job *j = open_job("lenet", gray, "first", ALL("per_channel_symmetric"));
    int last = pare_compression_layers(j->compression) - 1;

    (void)state;
    export_and_run(j, true);
    assert_int_equal(count_nodes(j->file, "QLinearConv"), 2);
    assert_int_equal(count_nodes(j->file, "Conv"), 0);
    /* No consumer reads it as float. */
    assert_null(pare_graph_find(j->file->graph, "conv1.weight"));
    assert_true(largest_difference(j) <=
                1.001 *
                    output_step(j, pare_layer_name(pare_compression_layer(j->compression, last))));
    close_job(j);
}

/* Residual connections share quantized values; names of inputs and outputs are kept. */
static void test_residual_networks(void **state)
{
    static const char *const config =
        "[{\"quant_types\": [\"weight\", \"input\"], \"quant_bits\": 8, \"quant_dtype\": "
        "{\"weight\": \"int\"}, \"quant_scheme\": {\"weight\": \"per_channel_symmetric\"}, "
        "\"op_types\": [\"Conv2d\", \"Linear\"]}]";
    struct job *j = open_job("resnet20", color, "first", config);

    (void)state;
    j->reference = false;
    export_and_run(j, false);
    assert_true(largest_difference(j) < 0.02 * largest_output(j));
    assert_string_equal(j->file->out[0].name, j->model->out[0].name);
    assert_true(count_nodes(j->file, "QuantizeLinear") <
                pare_compression_layers(j->compression)); /* shortcuts share nodes */
    close_job(j);
}

static void test_values_without_a_scale(void **state)
{
    static const char *const both_places =
        "[{\"quant_types\": [\"weight\", \"output\"], \"quant_bits\": 1, \"op_types\": "
        "[\"default\"]}]";
    struct pare_export e = { 0 };
    struct job *j = open_job(
        "lenet", gray, "signs",
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 1, \"op_types\": [\"default\"]}]");

    (void)state;
    export_and_run(j, false); /* 0.7 times -1 and 1 */
    assert_true(largest_difference(j) < 1e-4);
    close_job(j);

    for (int bits = 1; bits <= 8; bits++) { /* with a zero point that is not an integer */
        char config[128];

        snprintf(
            config, sizeof(config),
            "[{\"quant_types\": [\"weight\"], \"quant_bits\": %d, \"op_types\": [\"default\"]}]",
            bits);
        j = open_job("lenet", gray, "dorefa", config);
        export_and_run(j, false);
        assert_true(largest_difference(j) < 1e-5 * largest_output(j));
        close_job(j);
    }

    j = open_job("lenet", gray, "signs", both_places);
    OK(pare_compression_compress(j->compression, &err));
    e.onnx = j->path;
    assert_int_equal(pare_compression_export(j->compression, &e, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "quantizer signs has not set its scale"));
    close_job(j);

    j = open_job(
        "lenet", gray, "cubic",
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": [\"default\"]}]");
    OK(pare_compression_compress(j->compression, &err));
    e.onnx = j->path;
    assert_int_equal(pare_compression_export(j->compression, &e, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "layer 'conv1': quantizer cubic with"));
    assert_int_not_equal(access(j->path, F_OK), 0);
    close_job(j);
}

/* A second compression with the exported scales gives the same outputs. */
static void test_calibration_is_exported_and_read(void **state)
{
    struct job *j = open_job("lenet", gray, "first", ALL("per_channel_symmetric"));
    struct job *k = open_job("lenet", gray, "first", ALL("per_channel_symmetric"));
    struct job *m = open_job("lenet", gray, "first", ALL("per_tensor_symmetric"));
    struct pare_export e = { .onnx = j->path };
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "/tmp/pare-qdq-%ld.json", (long)getpid());
    export_and_run(j, false);
    e.calibration = path;
    OK(pare_compression_export(j->compression, &e, &err));
    OK(pare_compression_calibrate(k->compression, path, &err));
    memcpy(k->in, j->in, sizeof(k->in));
    OK(pare_compression_compress(k->compression, &err));
    run_model(k, k->model, k->out[0]);
    assert_memory_equal(k->out[0], j->out[0], 20 * sizeof(float));
    OK(pare_compression_export(k->compression, &e, &err));

    assert_int_equal(pare_compression_calibrate(m->compression, path, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "numbers, the layer needs 1"));
    unlink(path);
    close_job(m);
    close_job(k);
    close_job(j);
}

/* A file in NNI's format: ranges of inputs and outputs. */
static void test_nni_ranges_give_scales(void **state)
{
    static const char text[] =
        "{\"conv1\": {\"weight_bits\": 8, \"input_bits\": 8, \"tracked_min_input\": -1.0, "
        "\"tracked_max_input\": 1.55}}";
    struct job *j =
        open_job("lenet", gray, "first",
                 "[{\"quant_types\": [\"weight\", \"input\"], \"quant_bits\": 8, \"op_names\": "
                 "[\"conv1\"]}]");
    char path[64];
    FILE *f;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/pare-qdq-%ld.json", (long)getpid());
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    OK(pare_compression_calibrate(j->compression, path, &err));
    assert_true(fabsf(*pare_f32(pare_layer_scale(pare_compression_layer(j->compression, 0),
                                                 PARE_INPUT, 1, &err)) -
                      0.01f) < 1e-7f);
    assert_true(*pare_f32(pare_layer_zero_point(pare_compression_layer(j->compression, 0),
                                                PARE_INPUT, 1, &err)) == 100);
    unlink(path);
    close_job(j);
}

/* The same outputs with fewer nodes, and new biases. */
static void test_batch_norms_are_folded(void **state)
{
    struct job *j = open_job(
        "resnet20", color, "naive",
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": [\"Conv2d\"]}]");
    struct pare_model *folded = NULL;
    int norms = count_nodes(j->model, "BatchNormalization"), n;

    (void)state;
    for (int i = 0; i < j->model->graph->n_values; i++) { /* statistics that have an effect */
        struct pare_value *v = j->model->graph->value[i];

        if (strstr(v->name, "running_") && v->t.data && !pare_model_own(j->model, v, &err))
            for (int64_t k = 0; k < pare_numel(&v->t); k++)
                pare_f32_mut(&v->t)[k] = 0.5f + 0.01f * (float)(k % 7);
    }
    OK(pare_model_fold_norm(j->model, &folded, &n, &err));
    assert_true(n > 0 && n == norms);
    assert_int_equal(count_nodes(folded, "BatchNormalization"), 0);
    assert_non_null(pare_graph_find(folded->graph, "conv1.bias"));
    run_model(j, j->model, j->out[0]);
    run_model(j, folded, j->out[1]);
    assert_true(largest_difference(j) < 1e-5 * largest_output(j));
    pare_model_free(folded);
    close_job(j);
}

/* The preset's rules quantize outputs after activations, so that all operators fuse. */
static void test_preset_quantizes_after_activations(void **state)
{
    struct job *j = open_job(
        "lenet", gray, "naive",
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": [\"Conv2d\"]}]");
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_rules rules;
    struct pare_graph *g;
    const char *quantizer;

    (void)state;
    OK(pare_model_shapes(j->model, a, &g, &err));
    OK(pare_preset("int8", g, a, &quantizer, &rules, &err));
    assert_string_equal(quantizer, "ptq");
    assert_int_equal(rules.n, 2);
    assert_string_equal(rules.rule[0].op_names[0], "conv1"); /* followed by a ReLU */
    assert_string_equal(rules.rule[1].op_names[0], "relu1"); /* the scores of fc2 stay float */
    assert_int_equal(pare_preset("int7", g, a, &quantizer, &rules, &err), PARE_ECONFIG);
    pare_arena_free(a);
    close_job(j);
}

/* 12 bits are stored as uint16, for which the file is upgraded to opset 21. */
static void test_16_bit_weights(void **state)
{
    struct job *j = open_job(
        "lenet", gray, "first",
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 12, \"op_types\": [\"default\"]}]");
    struct pare_export e = { .onnx = j->path };

    (void)state;
    OK(pare_compression_compress(j->compression, &err));
    OK(pare_compression_export(j->compression, &e, &err));
    OK(pare_model_load(j->path, &j->file, &err));
    assert_int_equal(pare_graph_find(j->file->graph, "conv1.weight_quantized")->t.dtype, PARE_U16);
    close_job(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8_weights_take_a_quarter),
        cmocka_unit_test(test_file_matches_quantized_model),
        cmocka_unit_test(test_biases_are_int32),
        cmocka_unit_test(test_qoperator_format),
        cmocka_unit_test(test_residual_networks),
        cmocka_unit_test(test_values_without_a_scale),
        cmocka_unit_test(test_calibration_is_exported_and_read),
        cmocka_unit_test(test_nni_ranges_give_scales),
        cmocka_unit_test(test_batch_norms_are_folded),
        cmocka_unit_test(test_preset_quantizes_after_activations),
        cmocka_unit_test(test_16_bit_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
