/* test_null_err.c - public functions accept NULL for err: each one fails once with it.
 *
 * tools/check_registry.sh checks that every public function with an error argument is called here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include <pare/analyze.h>
#include <pare/budget.h>
#include <pare/compress.h>
#include <pare/plugin.h>
#include <pare/session.h>

#include "base/arena.h"

static const int64_t shape[3] = { 1, 8, 8 };
static const char all_layers[] = "[{\"op_types\": [\"Conv2d\", \"Linear\"], \"sparsity\": 0.5}]";
static const char weights_8bit[] = "[{\"op_types\": [\"Conv2d\"], \"quant_types\": [\"weight\"], "
                                   "\"quant_bits\": 8}]";

static struct pare_model *model;
static struct pare_data *data;
static struct pare_arena *arena;

#define FAILS(call) assert_int_not_equal(call, 0)

/* The call fails because the n-th allocation does. */
#define FAILS_WITHOUT_MEMORY(n, call)  \
    do {                               \
        pare_oom_countdown = n;        \
        assert_int_not_equal(call, 0); \
        pare_oom_countdown = 0;        \
    } while (0)

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    return pare_model_new("lenet", shape, 10, 1, &model, NULL) ||
           pare_data_open("digits", "test", NULL, &data, NULL) || !arena;
}

static int teardown(void **state)
{
    (void)state;
    pare_model_free(model);
    pare_data_free(data);
    pare_arena_free(arena);
    return 0;
}

static void test_base_and_models(void **state)
{
    const struct pare_model_layer *layer;
    const int64_t dim[1] = { -1 };
    const struct pare_tensor empty = { .dtype = PARE_F32, .rank = 1 };
    const char *const *name;
    struct pare_model_quant q;
    struct pare_model *m;
    struct pare_tensor t;
    struct pare_data *d;
    size_t len;
    void *bytes;
    int n;

    (void)state;
    assert_int_equal(pare_fail(NULL, PARE_ESHAPE, "%d", 1), PARE_ESHAPE);
    assert_int_equal(pare_no_memory(NULL, "for a test"), PARE_ENOMEM);
    assert_int_equal(pare_at(NULL, PARE_ESHAPE, "here"), PARE_ESHAPE);
    FAILS(pare_tensor_new(arena, &t, PARE_F32, 1, dim, NULL));
    FAILS(pare_model_load("/nowhere.onnx", &m, NULL));
    FAILS(pare_model_load_with("/nowhere.onnx", NULL, &m, NULL));
    FAILS(pare_model_parse("x", 1, NULL, &m, NULL));
    FAILS(pare_model_save(model, "/nowhere/x.onnx", NULL, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_model_pack(model, arena, &bytes, &len, NULL));
    FAILS(pare_model_new("no_such_network", shape, 10, 1, &m, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_model_list_layers(model, arena, &layer, &n, NULL));
    FAILS(pare_model_tensor(model, "no_such_tensor", &t, NULL));
    FAILS(pare_model_set_tensor(model, "no_such_tensor", &empty, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_model_list_tensors(model, arena, &name, &n, NULL));
    FAILS(pare_model_layer_quant(model, "no_such_layer", 'w', &q, NULL));
    FAILS(pare_data_open("/nowhere", "test", NULL, &d, NULL));
    FAILS(pare_data_from_arrays(&(struct pare_arrays){ .n = 1 }, &d, NULL));
}

static void test_plans_and_training(void **state)
{
    struct pare_training_opts o = { .data = data, .settings = "epochs=1 threads=1" };
    struct pare_plan_opts po = { .choices = "/nowhere/choices", .tune = true };
    struct pare_epoch_result r;
    struct pare_training *t;
    struct pare_tensor x = { .dtype = PARE_F32, .rank = 1, .dim = { 1 } }, y, none[2];
    struct pare_agreement agreement;
    struct pare_paired paired;
    struct pare_certificate certificate = { .n = 1, .confidence = 0.5 };
    bool found;
    struct pare_metrics metrics;
    struct pare_plan *p;
    double loss;

    (void)state;
    po.in = &x;
    po.n_in = 1;
    FAILS(pare_plan_new(model, &po, &p, NULL));
    assert_int_equal(pare_plan_new(model, NULL, &p, NULL), 0);
    FAILS(pare_plan_run(p, &x, 7, &y, 1, NULL));
    pare_plan_free(p);
    FAILS(pare_evaluate(model, data, &(struct pare_evaluate_opts){ .loss = "x" }, &metrics, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_compare(model, model, data, NULL, &agreement, NULL));
    FAILS(pare_compare_paired(model, model, data, &(struct pare_paired_opts){ .confidence = 2 },
                              &paired, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_certificate_write(model, &certificate, NULL));
    assert_int_equal(pare_certificate_write(model, &certificate, NULL), 0);
    FAILS(pare_certificate_read(model, &certificate, &found, NULL)); /* without hashes */
    FAILS(pare_training_open(model, "/nowhere", NULL, &t, NULL));
    FAILS(pare_training_new(model, &(struct pare_training_opts){ .settings = "x=1" }, &t, NULL));
    assert_int_equal(pare_training_new(model, &o, &t, NULL), 0);
    FAILS(pare_training_validate(t, &r, NULL));                       /* no data to validate with */
    assert_int_equal(pare_training_recalibrate(t, 1, NULL, NULL), 0); /* no normalization */
    FAILS(pare_training_forward(t, &x, 1, none, NULL));
    x.dtype = PARE_STR;
    FAILS(pare_training_loss(t, &x, &loss, NULL));
    FAILS(pare_training_backward(t, NULL)); /* before forward */
    assert_int_equal(pare_training_next(t, none, none + 1, NULL), 0);
    pare_training_optimize(t, NULL);
    pare_training_step(t, NULL);
    pare_training_update_epoch(t, -1, NULL);
    FAILS_WITHOUT_MEMORY(1, pare_training_run(t, NULL, NULL, NULL));
    pare_training_free(t);
}

static void test_tasks(void **state)
{
    struct pare_prune_opts po = { .pruner = "no_such_pruner", .sparsity = 0.5 };
    struct pare_quantize_opts qo = { .preset = "no_such_preset" };
    struct pare_compress_opts co = { .preset = "no_such_preset", .data = data };
    struct pare_compress_budget_opts bo = { .budget = "latency=0.5" };
    struct pare_compress_budget_report budget;
    struct pare_sensitivity_opts so = { .pruner = "no_such_pruner" };
    struct pare_sensitivity_report sensitivity;
    struct pare_quant_error_report error;
    struct pare_speedup_report shrunk;
    struct pare_count_report count;
    struct pare_tensor x = { .dtype = PARE_F32, .rank = 1, .dim = { 1 } };
    struct pare_count_opts counted = { .in = &x, .n_in = 1 };
    struct pare_model *out;

    (void)state;
    FAILS(pare_prune(model, &po, &out, NULL, NULL));
    FAILS(pare_quantize(model, &qo, &out, NULL, NULL));
    FAILS(pare_compress(model, &co, &out, NULL, NULL));
    FAILS(pare_compress_budget(model, &bo, arena, &out, &budget, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_speedup(model, NULL, arena, &out, &shrunk, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_model_fold(model, &out, NULL));
    FAILS(pare_apply_masks(model, "/nowhere.pth", NULL));
    FAILS_WITHOUT_MEMORY(1, pare_analyze_count(model, &counted, arena, &count, NULL));
    FAILS(pare_analyze_sensitivity(model, data, &so, arena, &sensitivity, NULL));
    FAILS(pare_analyze_quantization(model, &x, 1, NULL, arena, &error, NULL));
}

static int collect(struct pare_layer *l, const struct pare_tensor *in,
                   const struct pare_tensor *out, void *user, struct pare_err *err)
{
    (void)l, (void)in, (void)out, (void)user, (void)err;
    return 0;
}

static void test_pruning_session(void **state)
{
    struct pare_compression_opts o = { .pruner = "l1", .config = all_layers };
    struct pare_export e = { .onnx = "/nowhere/x.onnx" };
    const int64_t dim[1] = { 4 }, other[1] = { 5 };
    float score[4] = { 1, 2, 3, 4 };
    struct pare_compression *c;
    struct pare_layer *l;
    int64_t epochs, steps;
    uint8_t keep[4];
    int id;

    (void)state;
    FAILS(pare_compression_new(model, &(struct pare_compression_opts){ .pruner = "x" }, &c, NULL));
    assert_int_equal(pare_compression_new(model, &o, &c, NULL), 0);
    l = pare_compression_layer(c, 0);
    assert_non_null(pare_layer_buffer(l, "b", PARE_F32, 1, dim, NULL));
    assert_null(pare_layer_buffer(l, "b", PARE_F32, 1, other, NULL));
    assert_non_null(pare_layer_statistic(l, "s", PARE_MERGE_SUM, PARE_F64, 4, NULL));
    assert_null(pare_layer_statistic(l, "s", PARE_MERGE_SUM, PARE_F64, 5, NULL));
    FAILS(pare_layer_adam(l, "no_such_buffer", score, 0.1, NULL));
    FAILS(pare_compression_forward(c, 1, NULL)); /* no data */
    FAILS(pare_compression_remember(c, NULL));   /* no training */
    FAILS(pare_compression_rewind(c, NULL));
    FAILS(pare_compression_calibrate(c, "/nowhere.json", NULL));
    FAILS(pare_compression_export(c, &e, NULL));
    assert_int_equal(pare_compression_length(c, &epochs, &steps, NULL), 0);
    assert_int_equal(pare_add_collector(c, collect, NULL, &id, NULL), 0);
    assert_int_equal(pare_remove_collector(c, id, NULL), 0);
    FAILS(pare_remove_collector(c, 77, NULL));
    assert_int_equal(pare_compression_merge(c, PARE_MERGE_SUM, PARE_F32, score, 4, NULL), 0);
    assert_int_equal(pare_keep_largest(c, score, 4, 2, keep, NULL), 0);
    assert_int_equal(pare_compression_update_masks(c, NULL), 0);
    assert_int_equal(pare_compression_compress(c, NULL), 0);
    FAILS(pare_compression_compress(c, NULL)); /* twice */
    pare_compression_free(c);
}

static void test_quantizing_session(void **state)
{
    struct pare_compression_opts o = { .quantizer = "ptq", .config = weights_8bit };
    struct pare_tensor empty = { .dtype = PARE_F32, .rank = 1 };
    struct pare_quantized_tensor t;
    struct pare_budget_report report;
    struct pare_training *training;
    struct pare_training_opts to = { .data = data, .settings = "threads=1" };
    struct pare_compression *c;
    struct pare_model *m;
    struct pare_layer *l;

    (void)state;
    assert_int_equal(pare_compression_new(model, &o, &c, NULL), 0);
    l = pare_compression_layer(c, 0);
    assert_non_null(pare_layer_scale(l, PARE_WEIGHT, 1, NULL));
    assert_null(pare_layer_scale(l, PARE_WEIGHT, 2, NULL));
    assert_non_null(pare_layer_zero_point(l, PARE_WEIGHT, 1, NULL));
    assert_null(pare_layer_zero_point(l, PARE_WEIGHT, 2, NULL));
    assert_null(pare_layer_learn(l, "no_such_buffer", NULL));
    FAILS(pare_compression_observe(c, 1, false, NULL)); /* no data */
    FAILS(pare_compression_mixed_precision(c, &(struct pare_budget){ .least = 2 }, &report, NULL));
    FAILS_WITHOUT_MEMORY(1, pare_layer_quantized(l, PARE_WEIGHT, &t, NULL));
    FAILS(pare_layer_set_weight(l, &empty, NULL));
    FAILS(pare_layer_quantize(l, PARE_WEIGHT, true, &empty, &empty, NULL));
    FAILS(pare_layer_quantize_back(l, PARE_WEIGHT, &empty, &empty, &empty, NULL));
    assert_int_equal(pare_compression_compress(c, NULL), 0);
    FAILS(pare_compression_use_data(c, data, 8, NULL)); /* too late */
    assert_int_equal(pare_model_new("lenet", shape, 10, 1, &m, NULL), 0);
    assert_int_equal(pare_training_new(m, &to, &training, NULL), 0);
    FAILS(pare_compression_follow(c, training, NULL)); /* trains another model */
    pare_training_free(training);
    pare_model_free(m);
    pare_compression_free(c);
}

static void test_registry(void **state)
{
    struct pare_registry *g = pare_registry_new(NULL);
    struct pare_algorithm a = { .abi = PARE_ABI, .size = sizeof(a) };

    (void)state;
    assert_non_null(g);
    FAILS(pare_plugin_load(g, "/nowhere.so", NULL));
    FAILS(pare_add_pruner(g, &a, NULL));
    FAILS(pare_add_quantizer(g, &a, NULL));
    pare_registry_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_and_models),
        cmocka_unit_test(test_plans_and_training),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_pruning_session),
        cmocka_unit_test(test_quantizing_session),
        cmocka_unit_test(test_registry),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
