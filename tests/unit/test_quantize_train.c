/* test_quantize_train.c - quantizers on the digits: training, calibration, bit-identical resume. */
#include "quant_rig.h"

#include <unistd.h>

#include "quant/conv_bn_quant.h"

#define LEARN "optimizer=adam lr=2e-3 batch=32 threads=1 seed=1 "
#define CONFIG(more)                                                                       \
    "[{\"quant_types\": [\"weight\", \"input\"], \"op_types\": [\"Conv2d\", \"Linear\"], " \
    "\"quant_dtype\": {\"weight\": \"int\"}, "                                             \
    "\"quant_scheme\": {\"weight\": \"per_tensor_symmetric\"}, " more "}]"

/* A trained network, packed in memory. */
static struct pare_arena *arena;
static void *bytes;
static size_t len;
static double float_accuracy;

static int setup(void **state)
{
    struct job j = job_open(rig_model("small"), NULL, NULL, NULL, LEARN "epochs=6");

    (void)state;
    arena = pare_arena_new(1 << 16);
    ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    float_accuracy = rig_accuracy(j.training);
    ok(pare_model_pack(j.model, arena, &bytes, &len, &rig_err));
    job_close(&j);
    return float_accuracy > 0.93 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static struct job open_trained(const char *quantizer, const char *config, const char *settings,
                               const char *train)
{
    struct pare_model *m;

    ok(pare_model_parse(bytes, len, NULL, &m, &rig_err));
    return job_open(m, quantizer, config, settings, train);
}

/* Every quantization point has scales and zero points, and every weight of the model is one of its
 * integers. */
static void check_points(struct job *j)
{
    for (int i = 0; i < pare_compression_layers(j->compression); i++)
        for (int site = 0; site < PARE_QUANT_SITES; site++) {
            struct pare_layer *l = pare_compression_layer(j->compression, i);
            const struct pare_quant *q = pare_layer_quant(l, (enum pare_quant_site)site);
            int64_t n = site == PARE_WEIGHT && q && q->axis >= 0 ? l->w.dim[q->axis] : 1;
            struct pare_layer view; /* with the following normalization folded into its weight */
            struct pare_tensor *s, *z;

            if (!q)
                continue;
            ok(pare_conv_bn_view(l, arena, &view, &rig_err));
            s = pare_layer_scale(l, (enum pare_quant_site)site, n, &rig_err);
            z = pare_layer_zero_point(l, (enum pare_quant_site)site, n, &rig_err);
            assert_true(s && z);
            for (int64_t c = 0; c < n; c++)
                assert_true(pare_f32(s)[c] > 0 && isfinite(pare_f32(s)[c]));
            for (int64_t k = 0; site == PARE_WEIGHT && k < pare_numel(&l->w); k++) {
                int64_t c = n > 1 ? k / (pare_numel(&l->w) / n) : 0;
                float v = pare_f32(&view.weight->t)[k] / pare_f32(s)[c] + pare_f32(z)[c];

                expect_near((double)v, rint((double)v), 1e-3);
                assert_true(v > (float)q->qmin - 0.01f && v < (float)q->qmax + 0.01f);
            }
        }
}

static double train_and_evaluate(const char *quantizer, const char *config, const char *settings,
                                 int epochs)
{
    char train[128];
    struct job j;
    double a;

    snprintf(train, sizeof(train), LEARN "epochs=%d", epochs);
    j = open_trained(quantizer, config, settings, train);
    if (epochs)
        ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    if (strcmp(quantizer, "bnn") != 0)
        check_points(&j);
    a = rig_accuracy(j.training);
    job_close(&j);
    return a;
}

static void test_accuracy_with_8_bits(void **state)
{
    (void)state;
    assert_true(train_and_evaluate("qat", CONFIG("\"quant_bits\": 8"), NULL, 2) >
                float_accuracy - 0.01);
    assert_true(train_and_evaluate("qat", CONFIG("\"quant_bits\": 8, \"quant_start_step\": 20"),
                                   NULL, 2) > float_accuracy - 0.01);
    assert_true(train_and_evaluate("lsq", CONFIG("\"quant_bits\": 8"), NULL, 2) >
                float_accuracy - 0.01);
    assert_true(train_and_evaluate("lsq_plus", CONFIG("\"quant_bits\": 8"), NULL, 2) >
                float_accuracy - 0.01);
    assert_true(
        train_and_evaluate(
            "naive",
            "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": [\"Conv2d\", "
            "\"Linear\"], \"quant_dtype\": \"int\"}]",
            NULL, 1) > float_accuracy - 0.02);
}

static void test_accuracy_with_4_bits(void **state)
{
    const char *relu =
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": [\"Conv2d\", "
        "\"Linear\"]}, {\"quant_types\": [\"output\"], \"quant_bits\": 4, \"op_types\": "
        "[\"ReLU\"]}]";

    (void)state;
    assert_true(train_and_evaluate("lsq", CONFIG("\"quant_bits\": 4"), NULL, 3) >
                float_accuracy - 0.03);
    assert_true(train_and_evaluate("lsq_plus", CONFIG("\"quant_bits\": 4"), NULL, 3) >
                float_accuracy - 0.03);
    assert_true(train_and_evaluate("pact", relu, NULL, 3) > float_accuracy - 0.03);
}

/* Quantized weights of dorefa and bnn differ much from the float ones, so they train longer. */
static void test_accuracy_of_dorefa_and_bnn(void **state)
{
    const char *w =
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 2, \"op_types\": [\"Linear\"]}, "
        "{\"quant_types\": [\"output\"], \"quant_bits\": 4, \"op_types\": [\"ReLU\"]}]";
    const char *b =
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 1, \"op_names\": [\"conv2\", \"fc1\"]}]";

    (void)state;
    assert_true(train_and_evaluate("dorefa", w, NULL, 6) > 0.85);
    assert_true(train_and_evaluate("dorefa", w, "gradient_bits=8", 6) > 0.85);
    assert_true(train_and_evaluate("bnn", b, NULL, 6) > 0.85);
}

/* From random weights: without useful gradients the accuracy would stay at 0.1.  The last
 * layer is not binarized, because nothing after it would scale its sums down. */
static void test_training_from_random_weights(void **state)
{
    const char
        *both = CONFIG("\"quant_bits\": 4"),
        *gates = "[{\"quant_types\": [\"weight\"], \"quant_bits\": 4, \"op_types\": [\"Conv2d\", "
                 "\"Linear\"]}, {\"quant_types\": [\"output\"], \"quant_bits\": 4, \"op_types\": "
                 "[\"ReLU\"]}]",
        *signs = "[{\"quant_types\": [\"weight\"], \"quant_bits\": 1, \"op_names\": [\"conv2\", "
                 "\"fc1\"]}]";
    const struct {
        const char *quantizer, *config, *settings;
    } all[] = { { "qat", both, NULL },      { "lsq", both, NULL },
                { "lsq_plus", both, NULL }, { "pact", gates, NULL },
                { "dorefa", gates, NULL },  { "dorefa", gates, "gradient_bits=8" },
                { "bnn", signs, NULL } };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct job j = job_open(rig_model("small"), all[i].quantizer, all[i].config,
                                all[i].settings, LEARN "epochs=7");
        double before = rig_accuracy(j.training), after;

        ok(pare_training_run(j.training, NULL, NULL, &rig_err));
        after = rig_accuracy(j.training);
        if (!(before < 0.4 && after > 0.8))
            fail_msg("%s: accuracy %.3f, then %.3f", all[i].quantizer, before, after);
        job_close(&j);
    }
}

static void test_ptq_observers(void **state)
{
    static const char *const how[] = {
        "observer=minmax", "observer=moving_average", "observer=percentile",
        "observer=mse",    "observer=entropy",        "weight_observer=mse calibration_steps=2"
    };

    (void)state;
    for (size_t i = 0; i < sizeof(how) / sizeof(*how); i++)
        assert_true(train_and_evaluate("ptq", CONFIG("\"quant_bits\": 8"), how[i], 0) >
                    float_accuracy - 0.02);
    assert_true(
        train_and_evaluate(
            "ptq",
            "[{\"quant_types\": [\"weight\"], \"quant_bits\": 4, \"op_types\": [\"Conv2d\", "
            "\"Linear\"], \"quant_scheme\": \"per_channel_symmetric\", \"quant_dtype\": \"int\"}]",
            "weight_observer=mse", 0) > float_accuracy - 0.05);
}

/* The scale of the model's input is trained, although no layer is before it. */
static void test_model_input_scale_is_trained(void **state)
{
    struct job j = open_trained("lsq", CONFIG("\"quant_bits\": 4"), NULL,
                                LEARN "epochs=1 limit=64");
    struct pare_layer *l = pare_compression_layer(j.compression, 0);
    struct pare_tensor x, y, out;
    double loss;
    float before;

    (void)state;
    ok(pare_training_next(j.training, &x, &y, &rig_err));
    ok(pare_training_forward(j.training, &x, 1, &out, &rig_err));
    before = *pare_f32(pare_layer_scale(l, PARE_INPUT, 1, &rig_err));
    assert_true(before > 0);
    ok(pare_training_loss(j.training, &y, &loss, &rig_err));
    ok(pare_training_backward(j.training, &rig_err));
    assert_true(*pare_f32(pare_layer_learn(l, "input_scale", &rig_err)) != 0);
    ok(pare_training_optimize(j.training, &rig_err));
    ok(pare_training_step(j.training, &rig_err));
    assert_true(*pare_f32(pare_layer_scale(l, PARE_INPUT, 1, &rig_err)) != before);
    job_close(&j);
}

/* Case N15: a calibrated weight is within half a step of the float weight. */
static void test_weights_are_within_half_a_step(void **state)
{
    struct job j = open_trained("ptq", CONFIG("\"quant_bits\": 8"), NULL, LEARN);

    (void)state;
    assert_int_equal(pare_compression_layers(j.compression), 4);
    for (int i = 0; i < 4; i++) {
        struct pare_layer *l = pare_compression_layer(j.compression, i);
        float s = *pare_f32(pare_layer_scale(l, PARE_WEIGHT, 1, &rig_err));

        for (int64_t k = 0; k < pare_numel(&l->w); k++)
            expect_near((double)pare_f32(&l->weight->t)[k], (double)pare_f32(&l->w)[k],
                        0.5001 * (double)s);
    }
    job_close(&j);
}

/* ---- bit-identical resume -------------------------------------------------------------------- */

static bool stop_after_two_epochs(void *user, const struct pare_epoch_result *r)
{
    (void)user;
    return r->epoch < 1;
}

static void expect_same_buffers(const struct pare_layer *x, const struct pare_layer *y)
{
    for (const struct pare_buffer *a = x->buffers; a; a = a->next) {
        const struct pare_buffer *b = y->buffers;

        while (b && strcmp(a->name, b->name) != 0)
            b = b->next;
        assert_non_null(b);
        assert_memory_equal(a->t.data, b->t.data, (size_t)pare_numel(&a->t) * sizeof(float));
    }
}

static void check_resume(const char *quantizer, const char *more)
{
    const char *config = CONFIG("\"quant_bits\": 4");
    char path[64], train[256];
    struct job a, b;

    snprintf(path, sizeof(path), "/tmp/pare-quantize-%d.safetensors", (int)getpid());
    snprintf(train, sizeof(train), LEARN "epochs=4 limit=256 checkpoint=%s resume %s", path, more);
    a = open_trained(quantizer, config, NULL, train);
    ok(pare_training_run(a.training, NULL, NULL, &rig_err));
    unlink(path);
    b = open_trained(quantizer, config, NULL, train);
    ok(pare_training_run(b.training, stop_after_two_epochs, NULL, &rig_err));
    job_close(&b);
    b = open_trained(quantizer, config, NULL, train);
    ok(pare_training_run(b.training, NULL, NULL, &rig_err));
    for (int i = 0; i < pare_compression_layers(a.compression); i++) {
        struct pare_layer *x = pare_compression_layer(a.compression, i),
                          *y = pare_compression_layer(b.compression, i);
        size_t n = (size_t)pare_numel(&x->w) * sizeof(float);

        assert_memory_equal(x->weight->t.data, y->weight->t.data, n);
        assert_memory_equal(x->w.data, y->w.data, n);
        expect_same_buffers(x, y);
    }
    check_points(&a); /* also with the best weights restored */
    unlink(path);
    job_close(&a);
    job_close(&b);
}

static void test_resume_is_bit_identical(void **state)
{
    (void)state;
    check_resume("lsq", "valid=none");
    check_resume("lsq_plus", "");
    check_resume("qat", "");
}

static bool note_accuracy(void *user, const struct pare_epoch_result *r)
{
    *(double *)user = r->accuracy;
    return true;
}

/* The last layer's quantized output is the model's output: its memory is valid when the accuracy is
 * counted, after the loss has written the gradient. */
static void test_quantized_model_output(void **state)
{
    struct job j = open_trained(
        "qat", "[{\"quant_types\": [\"output\"], \"quant_bits\": 8, \"op_types\": [\"Linear\"]}]",
        NULL, LEARN "epochs=1");
    double accuracy = 0;

    (void)state;
    ok(pare_training_run(j.training, note_accuracy, &accuracy, &rig_err));
    assert_true(accuracy > 0.9);
    job_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy_with_8_bits),
        cmocka_unit_test(test_accuracy_with_4_bits),
        cmocka_unit_test(test_accuracy_of_dorefa_and_bnn),
        cmocka_unit_test(test_ptq_observers),
        cmocka_unit_test(test_training_from_random_weights),
        cmocka_unit_test(test_weights_are_within_half_a_step),
        cmocka_unit_test(test_model_input_scale_is_trained),
        cmocka_unit_test(test_resume_is_bit_identical),
        cmocka_unit_test(test_quantized_model_output),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
