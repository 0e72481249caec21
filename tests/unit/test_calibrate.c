/* test_calibrate.c - calibration: each value is observed once, in its kernel's layout, large
 * batches in micro-batches; and scratch pages are released. */
#include "quant_rig.h"

#include <stdlib.h>

#include "data/data.h"
#include "io/npz.h"
#include "onnx/model.h"

#define BATCH 16
#define SIDE 320 /* so large that a batch is split into micro-batches */
#define DATA "calibrate.tmp.npz"

#define INPUTS                                                                     \
    "{\"quant_types\": [\"weight\", \"input\"], \"quant_bits\": 8, \"op_types\": " \
    "[\"Conv2d\", \"Linear\"], \"quant_dtype\": {\"weight\": \"int\"}}"
#define OUTPUTS "{\"quant_types\": [\"output\"], \"quant_bits\": 8, \"op_types\": [\"ReLU\"]}"

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv first = { .out = 16, .kernel = 3, .stride = 32 },
                     c = { .out = 16, .kernel = 3 };

    c.pad = 1;
    x = pare_net_relu(n, pare_net_conv(n, x, "a", first), "a.relu");
    x = pare_net_sum(n, pare_net_conv(n, x, "b", c), x, "sum");
    x = pare_net_relu(n, x, "b.relu");
    x = pare_net_flatten(n, pare_net_average(n, x, "pool"), "flatten");
    return pare_net_linear(n, x, "fc", n->classes);
}

struct calibration {
    struct pare_model *model;
    struct pare_data *data;
    struct pare_compression *compression;
};

static struct calibration calibrate(const char *config, const char *settings)
{
    static const struct pare_network net = { .name = "small", .build = build };
    struct pare_network_opts no = { .c = 1, .h = SIDE, .w = SIDE, .classes = 10, .seed = 1 };
    struct pare_compression_opts ro = { .quantizer = "ptq",
                                        .threads = 2,
                                        .config = config,
                                        .settings = settings };
    struct calibration s;

    ok(pare_network_make(&net, &no, &s.model, &rig_err));
    ok(pare_data_open(DATA, "train", NULL, &s.data, &rig_err));
    ok(pare_compression_new(s.model, &ro, &s.compression, &rig_err));
    ok(pare_compression_use_data(s.compression, s.data, BATCH, &rig_err));
    ok(pare_compression_compress(s.compression, &rig_err));
    return s;
}

static void close_calibration(struct calibration *s)
{
    pare_compression_free(s->compression);
    pare_data_free(s->data);
    pare_model_free(s->model);
}

static float first_of_buffer(const struct calibration *s, const char *layer, const char *name)
{
    const struct pare_layer *l = rig_layer(s->compression, layer);

    for (const struct pare_buffer *b = l->buffers; b; b = b->next)
        if (!strcmp(b->name, name))
            return pare_f32(&b->t)[0];
    fail_msg("layer %s has no buffer %s", layer, name);
    return 0;
}

/* The consumer of a ReLU shares its range if the ReLU's output is observed. */
static void test_values_are_observed_once(void **state)
{
    static const char *const how[] = { "minmax", "moving_average", "percentile", "mse", "entropy" };

    (void)state;
    for (size_t i = 0; i < sizeof(how) / sizeof(*how); i++) {
        char settings[64];
        struct pare_layer *of = NULL;
        enum pare_quant_site site = PARE_WEIGHT;
        struct calibration inputs_only, both;

        snprintf(settings, sizeof(settings), "observer=%s calibration_steps=2", how[i]);
        inputs_only = calibrate("[" INPUTS "]", settings);
        both = calibrate("[" INPUTS ", " OUTPUTS "]", settings);
        assert_false(
            pare_layer_twin(rig_layer(inputs_only.compression, "b"), PARE_INPUT, NULL, NULL));
        assert_true(pare_layer_twin(rig_layer(both.compression, "b"), PARE_INPUT, &of, &site));
        assert_ptr_equal(of, rig_layer(both.compression, "a.relu"));
        assert_int_equal(site, PARE_OUTPUT);
        assert_true(first_of_buffer(&both, "b", "input_scale") > 0);
        assert_true(first_of_buffer(&both, "b", "input_scale") ==
                    first_of_buffer(&inputs_only, "b", "input_scale"));
        assert_true(first_of_buffer(&both, "b", "input_scale") ==
                    first_of_buffer(&both, "a.relu", "output_scale"));
        assert_true(first_of_buffer(&both, "a", "input_scale") ==
                    first_of_buffer(&inputs_only, "a", "input_scale"));
        assert_true(first_of_buffer(&both, "b", "tracked_max_input") ==
                    first_of_buffer(&inputs_only, "b", "tracked_max_input"));
        close_calibration(&inputs_only);
        close_calibration(&both);
    }
}

/* A moving average with averaging=0 has the range of a whole batch, not of a micro-batch. */
static void test_ranges_of_microbatches_are_merged(void **state)
{
    struct calibration a = calibrate("[" INPUTS ", " OUTPUTS "]",
                                     "observer=minmax calibration_steps=1");
    struct calibration b = calibrate("[" INPUTS ", " OUTPUTS "]",
                                     "observer=moving_average averaging=0 calibration_steps=1");
    static const char *const layers[] = { "a.relu", "b.relu" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(first_of_buffer(&a, layers[i], "tracked_max_output") > 0);
        assert_true(first_of_buffer(&a, layers[i], "tracked_max_output") ==
                    first_of_buffer(&b, layers[i], "tracked_max_output"));
    }
    close_calibration(&a);
    close_calibration(&b);
}

static void test_scratch_pages_are_released_and_read_again(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    size_t bytes = (size_t)1 << 20;
    struct pare_pages *p = pare_scratch_pages(a, bytes), *list = NULL;
    struct pare_tensor t = { PARE_F32, 1, { 1 << 18 }, NULL };

    (void)state;
    assert_non_null(p);
    memset(p->data, 7, bytes);
    pare_pages_release(p, p->data, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((const uint8_t *)p->data)[i], 7);
    pare_pages_free(p);
    assert_null(pare_scratch_pages(a, 100));
    setenv("TMPDIR", "/nowhere/at/all", 1); /* falls back to ordinary memory */
    assert_null(pare_scratch_pages(a, bytes));
    ok(pare_tensor_scratch(a, &t, &list, &rig_err));
    unsetenv("TMPDIR");
    assert_non_null(t.data);
    assert_null(list);
    pare_arena_free(a);
}

static int make_data(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_named v[2] = { { .name = "x" }, { .name = "y" } };
    uint32_t s = 1;

    (void)state;
    ok(pare_tensor_new(a, &v[0].t, PARE_F32, 4, (const int64_t[]){ 32, 1, SIDE, SIDE }, &rig_err));
    ok(pare_tensor_new(a, &v[1].t, PARE_I64, 1, (const int64_t[]){ 32 }, &rig_err));
    for (int64_t i = 0; i < pare_numel(&v[0].t); i++) {
        s = s * 1664525u + 1013904223u;
        pare_f32_mut(&v[0].t)[i] = (float)(s >> 8) / 16777216.0f - 0.4f;
    }
    ok(pare_npz_write(DATA, v, 2, &rig_err));
    pare_arena_free(a);
    return 0;
}

static int remove_data(void **state)
{
    (void)state;
    return remove(DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_observed_once),
        cmocka_unit_test(test_ranges_of_microbatches_are_merged),
        cmocka_unit_test(test_scratch_pages_are_released_and_read_again),
    };

    return cmocka_run_group_tests(tests, make_data, remove_data);
}
