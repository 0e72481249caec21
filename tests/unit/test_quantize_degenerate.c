/* test_quantize_degenerate.c - quantization of all-zero layers, constant channels, infinities;
 * quantized checkpoints are restored. */
#include "quant_rig.h"

#include <unistd.h>

#define LEARN "optimizer=adam lr=1e-3 batch=32 threads=1 seed=1 "
#define ALL(types, more)                                                       \
    "[{\"quant_types\": [" types "], \"op_types\": [\"Conv2d\", \"Linear\"], " \
    "\"quant_bits\": 4" more "}]"

static const char signed_weights[] = ALL("\"weight\", \"input\", \"output\"",
                                         ", \"quant_dtype\": {\"weight\": \"int\"}");
static const char channels[] =
    ALL("\"weight\", \"input\"",
        ", \"quant_dtype\": {\"weight\": \"int\"}, \"quant_scheme\": {\"weight\": "
        "\"per_channel_symmetric\"}");
static const char weights[] = ALL("\"weight\"", ", \"quant_dtype\": \"int\"");
static const char eight[] =
    "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\", \"Linear\"], \"quant_bits\": 8, "
    "\"quant_dtype\": \"int\"}]";
static const char one_bit[] =
    "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\", \"Linear\"], \"quant_bits\": 1}]";

static const struct quant_case {
    const char *quantizer, *config, *settings;
} cases[] = {
    { "ptq", signed_weights, "observer=minmax" },
    { "ptq", signed_weights, "observer=moving_average" },
    { "ptq", signed_weights, "observer=percentile" },
    { "ptq", signed_weights, "observer=mse weight_observer=mse" },
    { "ptq", signed_weights, "observer=entropy" },
    { "ptq", channels, "weight_observer=mse equalize=true bias_correction=true" },
    { "naive", eight, NULL },
    { "qat", channels, NULL },
    { "qat", signed_weights, NULL },
    { "lsq", channels, NULL },
    { "lsq_plus", channels, NULL },
    { "pact", signed_weights, NULL },
    { "dorefa", signed_weights, NULL },
    { "dorefa", weights, NULL },
    { "bnn", one_bit, NULL },
};

/* conv1: a channel of zeros and a constant one; conv2: all zeros, so its output is constant; fc1:
 * its output after the ReLU is always 0. */
static struct pare_model *degenerate_model(void)
{
    struct pare_model *m = rig_model("small");
    struct pare_tensor *w = rig_weight(m, "conv1.weight"), *b;

    for (int64_t i = 0; i < 18; i++)
        pare_f32_mut(w)[i] = i < 9 ? 0 : 0.25f;
    w = rig_weight(m, "conv2.weight");
    memset(w->data, 0, (size_t)pare_numel(w) * sizeof(float));
    b = rig_weight(m, "fc1.bias");
    for (int64_t i = 0; i < pare_numel(b); i++)
        pare_f32_mut(b)[i] = -1e6f;
    return m;
}

static void expect_finite_scales(const struct pare_compression *r)
{
    for (int i = 0; i < r->n_layers; i++)
        for (const struct pare_buffer *b = r->layer[i].buffers; b; b = b->next)
            for (int64_t k = 0; b->t.dtype == PARE_F32 && k < pare_numel(&b->t); k++) {
                float v = pare_f32(&b->t)[k];

                if (!isfinite(v) || (strstr(b->name, "_scale") && v < 0))
                    fail_msg("%s: %s is %g", r->layer[i].info.name, b->name, (double)v);
            }
}

static void expect_finite_outputs(struct pare_model *m)
{
    const int64_t dim[4] = { 8, 1, 8, 8 };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_tensor x, out;
    struct pare_plan *p;

    ok(pare_tensor_new(a, &x, PARE_F32, 4, dim, &rig_err));
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)(i % 17) / 16;
    o.in = &x;
    ok(pare_plan_make(m, &o, &p, &rig_err));
    ok(pare_plan_execute(p, &x, &out, &rig_err));
    for (int64_t i = 0; i < pare_numel(&out); i++)
        assert_true(isfinite(pare_f32(&out)[i]));
    pare_plan_free(p);
    pare_arena_free(a);
}

static void check_case(const struct quant_case *o, bool train)
{
    struct job j = job_open(degenerate_model(), o->quantizer, o->config, o->settings,
                            LEARN "epochs=1 limit=64 valid=none");
    char path[64];
    struct pare_export files = { .onnx = path };
    struct pare_model *m;

    snprintf(path, sizeof(path), "/tmp/pare-degenerate-%d.onnx", (int)getpid());
    if (train)
        ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    expect_finite_scales(j.compression);
    expect_finite_outputs(j.model);
    /* Before a training step, quantizers that learn or track ranges have no scales. */
    if (train || !strcmp(o->quantizer, "ptq") || !strcmp(o->quantizer, "naive")) {
        ok(pare_compression_export(j.compression, &files, &rig_err));
        ok(pare_model_load(path, &m, &rig_err));
        expect_finite_outputs(m);
        pare_model_free(m);
        unlink(path);
    }
    job_close(&j);
}

static void test_degenerate_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int train = 0; train < 2; train++)
            check_case(&cases[i], train);
}

/* Infinite weights are clamped to the largest finite one; bnn uses only signs. */
static void test_infinite_weights_are_clamped(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pare_model *m = rig_model("small");
        struct pare_tensor *w = rig_weight(m, "fc2.weight");
        struct job j;

        pare_f32_mut(w)[3] = INFINITY;
        pare_f32_mut(w)[4] = -INFINITY;
        j = job_open(m, cases[i].quantizer, cases[i].config,
                     cases[i].settings && strstr(cases[i].settings, "bias") ? NULL
                                                                            : cases[i].settings,
                     LEARN "epochs=1 limit=64 valid=none");
        for (int64_t k = 0; k < pare_numel(w); k++)
            assert_true(isfinite(pare_f32(w)[k]));
        expect_finite_scales(j.compression);
        expect_finite_outputs(j.model);
        job_close(&j);
    }
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void expect_same_buffer(struct pare_layer *a, struct pare_layer *b, const char *name)
{
    const struct pare_buffer *x = a->buffers, *y = b->buffers;

    while (x && strcmp(x->name, name) != 0)
        x = x->next;
    while (y && strcmp(y->name, name) != 0)
        y = y->next;
    if (!x || !y)
        fail_msg("%s has no %s", a->info.name, name);
    assert_true(pare_f32(&x->t)[0] != 0 || strstr(name, "zero_point"));
    assert_int_equal(pare_numel(&x->t), pare_numel(&y->t));
    assert_memory_equal(x->t.data, y->t.data, (size_t)pare_numel(&x->t) * sizeof(float));
}

/* NNI's example: a quantized model is saved and loaded into another one with the same quantizer;
 * then scale, zero_point and weight of conv1 are equal. */
static void check_checkpoint(const char *quantizer)
{
    struct job a, b;
    struct pare_layer *x, *y;
    char path[64], train[256];
    size_t n;

    snprintf(path, sizeof(path), "/tmp/pare-saved-%d.safetensors", (int)getpid());
    snprintf(train, sizeof(train), LEARN "epochs=2 limit=256 valid=none checkpoint=%s resume",
             path);
    unlink(path);
    a = job_open(rig_model("small"), quantizer, signed_weights, NULL, train);
    ok(pare_training_run(a.training, NULL, NULL, &rig_err));
    b = job_open(rig_model("small"), quantizer, signed_weights, NULL, train);
    x = rig_layer(a.compression, "conv1");
    y = rig_layer(b.compression, "conv1");
    n = (size_t)pare_numel(&x->w) * sizeof(float);
    assert_memory_not_equal(x->weight->t.data, y->weight->t.data, n);
    /* The training is complete, so that this only loads the checkpoint. */
    ok(pare_training_run(b.training, NULL, NULL, &rig_err));
    assert_memory_equal(x->weight->t.data, y->weight->t.data, n);
    assert_memory_equal(x->w.data, y->w.data, n);
    expect_same_buffer(x, y, "weight_scale");
    expect_same_buffer(x, y, "weight_zero_point");
    expect_same_buffer(x, y, "input_scale");
    expect_same_buffer(x, y, "input_zero_point");
    expect_same_buffer(x, y, "output_scale");
    expect_same_buffer(x, y, "output_zero_point");
    unlink(path);
    job_close(&a);
    job_close(&b);
}

static void test_checkpoints_restore_scales(void **state)
{
    (void)state;
    check_checkpoint("qat");
    check_checkpoint("lsq");
    check_checkpoint("lsq_plus");
    check_checkpoint("pact");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_degenerate_layers),
        cmocka_unit_test(test_infinite_weights_are_clamped),
        cmocka_unit_test(test_checkpoints_restore_scales),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
