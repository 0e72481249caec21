/* test_api.c - the public headers: counts, struct sizes, references, data in memory, progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <pare/analyze.h>
#include <pare/compress.h>

#include "onnx/builder.h"

#define N 96

static struct pare_err err;
static float a[N * 4], b[N * 4];
static int64_t label[N];

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

/* Only the sum of both inputs determines the class. */
static void fill_data(void)
{
    for (int i = 0; i < N * 4; i++) {
        label[i / 4] = i / 4 % 2;
        a[i] = (float)(i % 7) / 7;
        b[i] = (i / 4 % 2 ? 1.0f : -1.0f) - a[i];
    }
}

/* Inputs `a` and `b`, outputs `logits` (N, 2) and `negated` (N, 4). */
static struct pare_model *make_two_input_model(void)
{
    struct pare_model *m;
    struct pare_builder *k;
    struct pare_tensor w;
    const char *x, *y, *z;

    OK(pare_builder_new("two", &k, &err));
    x = pare_builder_input(k, "a", 2, (int64_t[]){ -1, 4 });
    y = pare_builder_input(k, "b", 2, (int64_t[]){ -1, 4 });
    x = pare_builder_node(k, "Add", "add", x, y, NULL);
    z = pare_builder_weight(k, "fc.weight", 2, (int64_t[]){ 2, 4 }, &w);
    for (int i = 0; w.data && i < 8; i++)
        pare_f32_mut(&w)[i] = i < 4 ? -0.1f : 0.05f;
    pare_builder_node(k, "Gemm", "fc", x, z, NULL);
    pare_builder_int(k, "transB", 1);
    pare_builder_output(k, "logits", 2, (int64_t[]){ -1, 2 });
    pare_builder_node(k, "Neg", "neg", x, NULL);
    pare_builder_output(k, "negated", 2, (int64_t[]){ -1, 4 });
    OK(pare_builder_done(k, &m, &err));
    return m;
}

/* ---- running --------------------------------------------------------------------------------- */

static void test_plan_checks_counts_of_tensors(void **state)
{
    struct pare_tensor in[2] = { { PARE_F32, 2, { 1, 4 }, a }, { PARE_F32, 2, { 1, 4 }, b } };
    struct pare_plan_opts o = { .size = sizeof(o), .in = in, .n_in = 1 };
    struct pare_model *m = make_two_input_model();
    struct pare_tensor out[3] = { { .rank = 77 }, { .rank = 77 }, { .rank = 77 } };
    struct pare_plan *p;

    (void)state;
    assert_int_equal(pare_plan_new(m, &o, &p, &err), PARE_ECONFIG);
    assert_null(p);
    assert_non_null(strstr(err.msg, "1 inputs are given, the model has 2"));
    o.n_in = 2;
    OK(pare_plan_new(m, &o, &p, &err));
    pare_model_free(m); /* the plan holds a reference */
    assert_int_equal(pare_plan_run(p, in, 1, out, 2, &err), PARE_ECONFIG);
    OK(pare_plan_run(p, in, 2, out, 1, &err));
    assert_int_equal(out[0].dim[1], 2);
    assert_int_equal(out[1].rank, 77); /* not written: the caller has one output only */
    OK(pare_plan_run(p, in, 2, out, 3, &err));
    assert_int_equal(out[1].dim[1], 4);
    assert_int_equal(out[2].rank, 77);
    pare_plan_free(p);
}

/* Every call that takes options refuses a struct with a set field that it does not know. */
static void expect_newer_options_rejected(void)
{
    struct {
        struct pare_compression_opts o;
        int more;
    } co = { .o = { .size = sizeof(co), .pruner = "level" }, .more = 1 };
    struct {
        struct pare_export o;
        int more;
    } e = { .o = { .size = sizeof(e), .masks = "never.npz" }, .more = 1 };
    struct {
        struct pare_save_opts o;
        int more;
    } so = { .o = { .size = sizeof(so) }, .more = 1 };
    struct {
        struct pare_budget o;
        int more;
    } budget = { .o = { .size = sizeof(budget) }, .more = 1 };
    struct pare_compression_opts whole = { .quantizer = "naive",
                                           .config = "[{\"quant_types\": [\"weight\"], "
                                                     "\"quant_bits\": 8, "
                                                     "\"op_types\": [\"Linear\"]}]" };
    struct pare_budget_report r;
    struct pare_model *m = make_two_input_model();
    struct pare_compression *c;

    assert_int_equal(pare_model_save(m, "never.onnx", &so.o, &err), PARE_EUNSUPPORTED);
    assert_int_equal(pare_compression_new(m, &co.o, &c, &err), PARE_EUNSUPPORTED);
    assert_null(c);
    OK(pare_compression_new(m, &whole, &c, &err));
    assert_int_equal(pare_compression_export(c, &e.o, &err), PARE_EUNSUPPORTED);
    OK(pare_compression_compress(c, &err));
    assert_int_equal(pare_compression_mixed_precision(c, &budget.o, &r, &err), PARE_EUNSUPPORTED);
    pare_compression_free(c);
    pare_model_free(m);
}

static void test_option_structs_of_other_versions(void **state)
{
    struct {
        struct pare_plan_opts o;
        int more;
    } newer = { .o = { .size = sizeof(newer) } };
    struct pare_plan_opts older = { .size = offsetof(struct pare_plan_opts, reference),
                                    .reference = true };
    struct pare_model *m = make_two_input_model();
    struct pare_plan *p;

    (void)state;
    OK(pare_plan_new(m, &older, &p, &err)); /* the field beyond its size is not read */
    pare_plan_free(p);
    OK(pare_plan_new(m, &newer.o, &p, &err));
    pare_plan_free(p);
    newer.more = 1;
    assert_int_equal(pare_plan_new(m, &newer.o, &p, &err), PARE_EUNSUPPORTED);
    older.size = 3;
    assert_int_equal(pare_plan_new(m, &older, &p, &err), PARE_ECONFIG);
    pare_model_free(m);
    expect_newer_options_rejected();
    assert_int_equal(pare_abi(), PARE_ABI);
    assert_int_equal(pare_struct_size("pare_plan_opts"), sizeof(struct pare_plan_opts));
    assert_int_equal(pare_struct_size("pare_nothing"), 0);
}

/* ---- data ------------------------------------------------------------------------------------ */

static int copy_item(void *user, int64_t item, struct pare_tensor *in, int n_in, struct pare_err *e)
{
    ++*(int *)user;
    if (n_in != 2)
        return pare_fail(e, PARE_ECONFIG, "%d inputs", n_in);
    memcpy(in[0].data, b + item * 4, 4 * sizeof(float)); /* in the order of the data set */
    memcpy(in[1].data, a + item * 4, 4 * sizeof(float));
    return 0;
}

/* Inputs are found by name, in any order. */
static struct pare_data *open_data(int *calls)
{
    struct pare_input in[2] = { { "b", { PARE_F32, 2, { N, 4 }, b } },
                                { "a", { PARE_F32, 2, { N, 4 }, a } } };
    struct pare_input one[2] = { { "b", { PARE_F32, 1, { 4 }, NULL } },
                                 { "a", { PARE_F32, 1, { 4 }, NULL } } };
    struct pare_tensor y = { PARE_I64, 1, { N }, label };
    struct pare_arrays arrays = { .size = sizeof(arrays),
                                  .n = N,
                                  .input = calls ? one : in,
                                  .n_inputs = 2,
                                  .y = &y,
                                  .get = calls ? copy_item : NULL,
                                  .user = calls,
                                  .batch = 40 };
    struct pare_data *d;

    fill_data();
    OK(pare_data_from_arrays(&arrays, &d, &err));
    return d;
}

static void test_training_on_two_named_inputs(void **state)
{
    struct pare_training_opts o = { .size = sizeof(o), .settings = "epochs=60 lr=0.1 threads=1" };
    struct pare_model *m = make_two_input_model();
    struct pare_training *t;
    struct pare_metrics from_get, before, after;
    struct pare_data *d;
    int calls = 0;

    (void)state;
    d = open_data(&calls);
    OK(pare_evaluate(m, d, NULL, &from_get, &err));
    assert_int_equal(calls, N);
    pare_data_free(d);
    d = open_data(NULL);
    OK(pare_evaluate(m, d, NULL, &before, &err));
    assert_true(before.loss == from_get.loss);
    assert_int_equal(before.n, N);
    o.data = o.valid = d;
    OK(pare_training_new(m, &o, &t, &err));
    pare_data_free(d); /* the training holds references */
    OK(pare_training_run(t, NULL, NULL, &err));
    d = open_data(NULL);
    OK(pare_evaluate(m, d, NULL, &after, &err));
    assert_true(after.loss < before.loss / 2);
    assert_true(after.top1 == 1);
    pare_model_free(m);
    pare_training_free(t);
    pare_data_free(d);
}

static void test_data_that_does_not_fit_the_model(void **state)
{
    struct pare_input in = { "c", { PARE_F32, 2, { N, 4 }, a } };
    struct pare_arrays arrays = { .n = N, .input = &in, .n_inputs = 1 };
    struct pare_model *m = make_two_input_model();
    struct pare_training_opts o = { .size = 0 };
    struct pare_training *t;
    struct pare_metrics x;
    struct pare_data *d;

    (void)state;
    OK(pare_data_from_arrays(&arrays, &d, &err));
    assert_int_equal(pare_evaluate(m, d, NULL, &x, &err), PARE_ESHAPE);
    assert_non_null(strstr(err.msg, "no values for the model's input 'a'"));
    pare_data_free(d);
    in.t.dim[0] = N - 1;
    assert_int_equal(pare_data_from_arrays(&arrays, &d, &err), PARE_ESHAPE);
    OK(pare_training_new(m, &o, &t, &err));
    assert_int_equal(pare_training_run(t, NULL, NULL, &err), PARE_ECONFIG); /* no data */
    pare_training_free(t);
    assert_int_equal(pare_training_open(m, NULL, NULL, &t, &err), PARE_ECONFIG);
    pare_model_free(m);
}

/* ---- compression ----------------------------------------------------------------------------- */

static bool cancel_at_second_call(void *user, const struct pare_progress *p)
{
    assert_non_null(p->what);
    return ++*(int *)user < 2;
}

static void test_quantized_model_lists_its_scales(void **state)
{
    int64_t shape[3] = { 1, 8, 8 };
    struct pare_quantize_opts o = { .size = sizeof(o),
                                    .preset = "int8",
                                    .progress = cancel_at_second_call };
    struct pare_model *m, *q;
    struct pare_model_quant w, x;
    struct pare_quantize_report r;
    int calls = 0;

    (void)state;
    OK(pare_model_new("lenet", shape, 10, 1, &m, &err));
    OK(pare_data_open("digits", "train", NULL, &o.tuning.data, &err));
    OK(pare_data_open("digits", "test", NULL, &o.tuning.valid, &err));
    o.tuning.settings = "threads=1";
    o.user = &calls;
    assert_int_equal(pare_quantize(m, &o, &q, &r, &err), PARE_ECANCEL);
    assert_null(q);
    o.progress = NULL;
    OK(pare_quantize(m, &o, &q, &r, &err));
    pare_model_free(m);
    assert_int_equal(r.after.n, 360);
    assert_true(r.layers >= 4 && r.tensors > r.layers);
    OK(pare_model_layer_quant(q, "conv1", 'w', &w, &err));
    assert_int_equal(w.dtype, PARE_I8);
    assert_int_equal(w.axis, 0);
    assert_true(pare_f32(&w.scale)[0] > 0);
    OK(pare_model_layer_quant(q, "conv1", 'x', &x, &err));
    assert_int_equal(pare_numel(&x.scale), 1);
    pare_model_free(q);
    pare_data_free(o.tuning.data);
    pare_data_free(o.tuning.valid);
}

/* Integer operators and packed weights have scales, too, along the weight's own axis. */
static void test_integer_operators_list_their_scales(void **state)
{
    int64_t shape[3] = { 1, 8, 8 };
    struct pare_quantize_opts o = { .preset = "int8", .qoperator = true };
    struct pare_model *m, *q;
    struct pare_model_quant w, x;

    (void)state;
    OK(pare_model_new("lenet", shape, 10, 1, &m, &err));
    OK(pare_data_open("digits", "train", NULL, &o.tuning.data, &err));
    OK(pare_quantize(m, &o, &q, NULL, &err));
    OK(pare_model_layer_quant(q, "fc1", 'w', &w, &err)); /* QGemm */
    assert_int_equal(w.dtype, PARE_I8);
    assert_int_equal(w.axis, 0);
    assert_int_equal(pare_numel(&w.scale), 500);
    OK(pare_model_layer_quant(q, "fc1", 'x', &x, &err));
    assert_int_equal(pare_numel(&x.scale), 1);
    assert_int_not_equal(x.dtype, PARE_NONE);
    pare_model_free(q);
    o = (struct pare_quantize_opts){ .preset = "w4", .nbits = true, .tuning = o.tuning };
    OK(pare_quantize(m, &o, &q, NULL, &err));
    OK(pare_model_layer_quant(q, "fc1", 'w', &w, &err)); /* MatMulNBits */
    assert_int_equal(w.dtype, PARE_I4);                  /* no zero points: 8 is subtracted */
    assert_int_equal(w.axis, 1);
    assert_true(w.group >= 16);
    OK(pare_model_layer_quant(q, "fc1", 'x', &x, &err));
    assert_int_equal(x.dtype, PARE_NONE);
    pare_model_free(q);
    o = (struct pare_quantize_opts){ .preset = "int8-dynamic", .tuning = o.tuning };
    OK(pare_quantize(m, &o, &q, NULL, &err));
    OK(pare_model_layer_quant(q, "fc1", 'w', &w, &err)); /* MatMulInteger */
    assert_int_equal(w.dtype, PARE_I8);
    assert_int_equal(w.axis, 1);
    assert_int_equal(pare_numel(&w.scale), 500);
    OK(pare_model_layer_quant(q, "conv1", 'w', &w, &err)); /* ConvInteger */
    assert_int_equal(w.axis, 0);
    assert_int_equal(pare_numel(&w.scale), 20);
    OK(pare_model_layer_quant(q, "fc1", 'x', &x, &err));
    assert_true(x.dynamic && !x.scale.data);
    assert_int_equal(x.dtype, PARE_U8);
    pare_model_free(q);
    pare_model_free(m);
    pare_data_free(o.tuning.data);
}

/* The scale of a pooled tensor is not the scale of the convolution before the pool. */
static void test_float_outputs_have_no_scale(void **state)
{
    static const char *const names[] = { "conv2", NULL };
    struct pare_rule rule = { .op_names = names, .keys = "quant_types=input quant_bits=8" };
    struct pare_quantize_opts o = { .quantizer = "ptq", .rule = &rule, .n_rules = 1 };
    int64_t shape[3] = { 1, 8, 8 };
    struct pare_model *m, *q;
    struct pare_model_quant x;

    (void)state;
    OK(pare_model_new("lenet", shape, 10, 1, &m, &err));
    OK(pare_data_open("digits", "train", NULL, &o.tuning.data, &err));
    OK(pare_quantize(m, &o, &q, NULL, &err));
    OK(pare_model_layer_quant(q, "conv2", 'x', &x, &err));
    assert_int_not_equal(x.dtype, PARE_NONE);
    OK(pare_model_layer_quant(q, "conv1", 'y', &x, &err));
    assert_int_equal(x.dtype, PARE_NONE);
    OK(pare_model_layer_quant(q, "conv2", 'w', &x, &err));
    assert_int_equal(x.dtype, PARE_NONE);
    pare_model_free(q);
    pare_model_free(m);
    pare_data_free(o.tuning.data);
}

/* A progress callback that returns false cancels tuning, verification and training. */
static void test_progress_callback_cancels(void **state)
{
    int64_t shape[3] = { 1, 8, 8 };
    int calls = 1;
    struct pare_plan_opts plan = { .tune = true,
                                   .threads = 1,
                                   .progress = cancel_at_second_call,
                                   .user = &calls };
    struct pare_prune_opts prune = { .pruner = "l1",
                                     .sparsity = 0.5,
                                     .speedup = true,
                                     .shrink = &(struct pare_speedup_opts){
                                         .progress = cancel_at_second_call,
                                         .progress_user = &calls } };
    struct pare_prune_opts tune = { .sparsity = 0.5,
                                    .progress = cancel_at_second_call,
                                    .user = &calls };
    struct pare_model *m, *s;
    struct pare_plan *p;

    (void)state;
    OK(pare_model_new("lenet", shape, 10, 1, &m, &err));
    assert_int_equal(pare_plan_new(m, &plan, &p, &err), PARE_ECANCEL);
    calls = 1;
    assert_int_equal(pare_prune(m, &prune, &s, NULL, &err), PARE_ECANCEL);
    assert_null(s);
    calls = 1;
    OK(pare_data_open("digits", "train", NULL, &tune.tuning.data, &err));
    tune.tuning.settings = "epochs=1 threads=1";
    assert_int_equal(pare_prune(m, &tune, &s, NULL, &err), PARE_ECANCEL);
    assert_null(s);
    pare_data_free(tune.tuning.data);
    pare_model_free(m);
}

static void test_models_are_freed_in_any_order(void **state)
{
    int64_t shape[3] = { 1, 8, 8 };
    struct pare_prune_opts o = { .pruner = "l1", .sparsity = 0.5, .speedup = true };
    struct pare_arena *arena = pare_arena_new(0);
    const struct pare_model_layer *layer;
    struct pare_algorithm_info info;
    struct pare_prune_report r;
    struct pare_model *m, *s;
    struct pare_tensor t;
    int n;

    (void)state;
    OK(pare_model_new("lenet", shape, 10, 1, &m, &err));
    OK(pare_prune(m, &o, &s, &r, &err));
    pare_model_free(m); /* the smaller model shares what did not change */
    assert_true(r.params_left < r.params && r.macs_left < r.macs);
    OK(pare_model_list_layers(s, arena, &layer, &n, &err));
    assert_string_equal(layer[0].name, "conv1");
    assert_string_equal(layer[0].type, "Conv2d");
    OK(pare_model_tensor(s, layer[0].weight, &t, &err));
    assert_int_equal(t.dim[0], 10); /* of 20 */
    assert_int_not_equal(pare_model_tensor(s, "nothing", &t, &err), 0);
    pare_model_free(s);
    pare_arena_free(arena);
    for (n = 0; pare_list_pruner(NULL, n, &info); n++)
        assert_non_null(info.doc);
    assert_int_equal(n, 23);
    assert_true(pare_list_quantizer(NULL, 0, &info));
}

/* An export with a fixed input shape writes it into the file only: the model in memory keeps its
 * free batch, so that training continues. */
static void test_export_keeps_shapes_in_memory(void **state)
{
    int64_t chw[3] = { 1, 8, 8 }, fixed[4] = { 1, 1, 8, 8 };
    struct pare_training_opts to = { .settings = "epochs=1 limit=256 threads=1" };
    struct pare_compression_opts co = { .pruner = "level",
                                        .config = "[{\"sparsity\": 0.5, "
                                                  "\"op_types\": [\"default\"]}]" };
    struct pare_export e = { .input_shape = fixed, .input_rank = 4 };
    struct pare_training *training;
    struct pare_compression *c;
    struct pare_pruned_layer p;
    struct pare_model *m, *w;
    const struct pare_io *io;
    char path[] = "/tmp/pare_api_XXXXXX.onnx";

    (void)state;
    close(mkstemps(path, 5));
    e.onnx = path;
    OK(pare_model_new("lenet", chw, 10, 1, &m, &err));
    OK(pare_data_open("digits", "train", NULL, &to.data, &err));
    OK(pare_training_new(m, &to, &training, &err));
    OK(pare_compression_new(m, &co, &c, &err));
    OK(pare_compression_follow(c, training, &err));
    OK(pare_compression_compress(c, &err));
    for (int i = 0; i < 2; i++) {
        OK(pare_compression_export(c, &e, &err));
        pare_model_inputs(m, &io);
        assert_int_equal(io[0].dim[0], -1);
        pare_model_outputs(m, &io);
        assert_int_equal(io[0].dim[0], -1);
        OK(pare_training_run(training, NULL, NULL, &err));
    }
    OK(pare_model_load(path, &w, &err));
    pare_model_inputs(w, &io);
    assert_int_equal(io[0].dim[0], 1);
    pare_model_outputs(w, &io);
    assert_int_equal(io[0].dim[0], 1);
    /* A shape that does not fit changes nothing either. */
    fixed[2] = 9;
    assert_int_not_equal(pare_compression_export(c, &e, &err), 0);
    pare_model_inputs(m, &io);
    assert_int_equal(io[0].dim[0], -1);

    assert_string_equal(pare_compression_algorithm(c), "level");
    assert_int_equal(pare_compression_equalized(c), -1);
    pare_layer_pruned(pare_compression_layer(c, 0), &p);
    assert_true(p.target == 0.5 && p.sparsity == 0.5);
    assert_int_equal(p.params, 20 * 25 + 20);
    assert_int_equal(p.params_left, 10 * 25 + 20);
    unlink(path);
    pare_model_free(w);
    pare_compression_free(c);
    pare_training_free(training);
    pare_data_free(to.data);
    pare_model_free(m);
}

/* A scheme per channel gives one scale per output channel, in memory and in the file. */
static void test_naive_has_scales_per_channel(void **state)
{
    int64_t chw[3] = { 1, 8, 8 };
    struct pare_compression_opts co = {
        .quantizer = "naive",
        .config = "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"quant_scheme\": "
                  "\"per_channel_symmetric\", \"op_names\": [\"conv1\"]}]"
    };
    char path[] = "/tmp/pare_api_XXXXXX.onnx";
    struct pare_export e = { .onnx = path };
    struct pare_quantized_tensor q;
    struct pare_model_quant file;
    struct pare_compression *c;
    struct pare_tensor t;
    struct pare_model *m, *w;
    float largest[20] = { 0 };

    (void)state;
    close(mkstemps(path, 5));
    OK(pare_model_new("lenet", chw, 10, 1, &m, &err));
    OK(pare_model_tensor(m, "conv1.weight", &t, &err));
    for (int i = 0; i < 20 * 25; i++)
        largest[i / 25] = fmaxf(largest[i / 25], fabsf(pare_f32(&t)[i]));
    OK(pare_compression_new(m, &co, &c, &err));
    OK(pare_compression_compress(c, &err));
    OK(pare_layer_quantized(pare_compression_layer(c, 0), PARE_WEIGHT, &q, &err));
    assert_string_equal(q.dtype, "int8");
    assert_int_equal(q.scales, 20);
    OK(pare_layer_quantized(pare_compression_layer(c, 0), PARE_INPUT, &q, &err));
    assert_int_equal(q.bits, 0);
    OK(pare_compression_export(c, &e, &err));
    OK(pare_model_load(path, &w, &err));
    OK(pare_model_layer_quant(w, "conv1", 'w', &file, &err));
    assert_int_equal(file.axis, 0);
    assert_int_equal(file.scale.dim[0], 20);
    for (int i = 0; i < 20; i++)
        assert_true(fabsf(pare_f32(&file.scale)[i] * 127 - largest[i]) < 1e-6f);
    unlink(path);
    pare_compression_free(c);
    pare_model_free(w);
    pare_model_free(m);
}

/* Outputs that are not numbers are not called equal. */
static void test_comparison_notices_nan(void **state)
{
    float x[2 * 4] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct pare_input in[] = { { "a", { PARE_F32, 2, { 2, 4 }, x } },
                               { "b", { PARE_F32, 2, { 2, 4 }, x } } };
    struct pare_arrays arrays = { .size = sizeof(arrays), .n = 2, .input = in, .n_inputs = 2 };
    struct pare_model *m = make_two_input_model();
    struct pare_agreement g;
    struct pare_data *data;

    (void)state;
    OK(pare_data_from_arrays(&arrays, &data, &err));
    OK(pare_compare(m, m, data, NULL, &g, &err));
    assert_true(isinf(g.snr) && g.snr > 0 && g.max_difference == 0 && g.same_top1 == 1);
    x[5] = NAN;
    OK(pare_compare(m, m, data, NULL, &g, &err));
    assert_true(isnan(g.snr) && isnan(g.max_difference));
    pare_data_free(data);
    pare_model_free(m);
}

static bool count_and_cancel_at_second_call(void *user, const struct pare_progress *p)
{
    (void)p;
    return ++*(int *)user < 2;
}

/* What `pare analyze` prints, as library calls: the model is not changed, and the analysis can be
 * canceled. */
static void test_analysis_calls(void **state)
{
    const double sparsity[] = { 0.5, 0.9 };
    const char *const layers[] = { "conv1", "re:fc.*", NULL };
    int64_t chw[3] = { 1, 8, 8 };
    struct pare_sensitivity_opts so = { .size = sizeof(so),
                                        .sparsity = sparsity,
                                        .n_sparsities = 2,
                                        .layers = layers,
                                        .threads = 1 };
    struct pare_quant_error_opts qo = { .size = sizeof(qo), .layers = layers, .threads = 1 };
    struct pare_tensor in = { PARE_F32, 4, { 1, 1, 8, 8 }, a };
    struct pare_arena *arena = pare_arena_new(0);
    struct pare_quant_error_report q;
    struct pare_sensitivity_report s;
    struct pare_count_report n;
    struct pare_data *data;
    struct pare_model *m;
    int calls = 0;

    (void)state;
    OK(pare_model_new("lenet", chw, 10, 1, &m, &err));
    OK(pare_analyze_count(m, NULL, arena, &n, &err));
    assert_string_equal(n.layer[0].name, "conv1");
    assert_int_equal(n.layer[0].params, 20 * 25 + 20);
    assert_true(n.macs > 0 && n.unknown == 0);

    OK(pare_data_open("digits", "test", NULL, &data, &err));
    OK(pare_analyze_sensitivity(m, data, &so, arena, &s, &err));
    assert_true(s.n_layers >= 2 && s.n_sparsities == 2);
    assert_string_equal(s.name[0], "conv1");
    assert_true(s.metric[1] >= 0 && s.metric[1] <= 1);
    so.progress = count_and_cancel_at_second_call;
    so.user = &calls;
    assert_int_equal(pare_analyze_sensitivity(m, data, &so, arena, &s, &err), PARE_ECANCEL);
    assert_int_equal(calls, 2);
    so.metric = "color";
    assert_int_equal(pare_analyze_sensitivity(m, data, &so, arena, &s, &err), PARE_ECONFIG);

    assert_int_equal(pare_analyze_quantization(m, &in, 2, &qo, arena, &q, &err), PARE_ECONFIG);
    OK(pare_analyze_quantization(m, &in, 1, &qo, arena, &q, &err));
    assert_int_equal(q.n_bits, 2);
    assert_true(q.item[0].weight_db > q.item[1].weight_db); /* 8 bits, then 4 */
    qo.progress = count_and_cancel_at_second_call;
    qo.user = &calls;
    calls = 0;
    assert_int_equal(pare_analyze_quantization(m, &in, 1, &qo, arena, &q, &err), PARE_ECANCEL);
    assert_int_equal(calls, 2);
    pare_data_free(data);
    pare_model_free(m);
    pare_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_analysis_calls),
        cmocka_unit_test(test_comparison_notices_nan),
        cmocka_unit_test(test_export_keeps_shapes_in_memory),
        cmocka_unit_test(test_naive_has_scales_per_channel),
        cmocka_unit_test(test_plan_checks_counts_of_tensors),
        cmocka_unit_test(test_option_structs_of_other_versions),
        cmocka_unit_test(test_training_on_two_named_inputs),
        cmocka_unit_test(test_data_that_does_not_fit_the_model),
        cmocka_unit_test(test_quantized_model_lists_its_scales),
        cmocka_unit_test(test_integer_operators_list_their_scales),
        cmocka_unit_test(test_float_outputs_have_no_scale),
        cmocka_unit_test(test_progress_callback_cancels),
        cmocka_unit_test(test_models_are_freed_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
