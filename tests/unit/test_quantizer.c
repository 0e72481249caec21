/* test_quantizer.c - quantization points: forward, backward, and removal after training. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "quant/quant_method.h"
#include "quant/quant_config.h"
#include "train/training.h"

static struct pare_err err;
static const int64_t digits[3] = { 1, 8, 8 };

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

/* A test quantizer that rounds to halves and counts calls.  Its gradient is 0 where |x| > 1 (NNI's
 * ClipGrad) for outputs, and doubled for weights. */
static struct {
    int weight, input, output, back[PARE_QUANT_SITES];
    bool training;
} calls;

static int round_to_halves(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y)
{
    calls.training = pare_compression_is_training(pare_layer_compression(l));
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32_mut(y)[i] = rintf(pare_f32(x)[i] * 2) / 2;
    return 0;
}

static int quantize_weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                           struct pare_err *e)
{
    (void)e;
    calls.weight++;
    return round_to_halves(l, x, y);
}

static int quantize_input(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                          struct pare_err *e)
{
    (void)e;
    calls.input++;
    return round_to_halves(l, x, y);
}

static int quantize_output(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                           struct pare_err *e)
{
    (void)e;
    calls.output++;
    return round_to_halves(l, x, y);
}

static int count_backward(struct pare_layer *l, enum pare_quant_site site,
                          const struct pare_tensor *x, const struct pare_tensor *gy,
                          struct pare_tensor *gx, struct pare_err *e)
{
    (void)l;
    (void)e;
    calls.back[site]++;
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32_mut(gx)[i] = site == PARE_WEIGHT ? 2 * pare_f32(gy)[i]
                              : site == PARE_OUTPUT && fabsf(pare_f32(x)[i]) > 1 ? 0
                                                                                 : pare_f32(gy)[i];
    return 0;
}

static const struct pare_algorithm test_quantizer = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "clip",
    .doc = "For this test.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = quantize_weight,
            .input = quantize_input,
            .output = quantize_output,
            .backward = count_backward,
        },
};

struct job {
    struct pare_registry *registry;
    struct pare_model *model;
    struct pare_training *training_session;
    struct pare_compression *compression;
};

static struct job open_job(const char *quantizer, const char *config)
{
    struct job j = { .registry = pare_registry_new(&err) };
    struct pare_compression_opts o = { .quantizer = quantizer,
                                       .config = config,
                                       .registry = j.registry };

    memset(&calls, 0, sizeof(calls));
    OK(pare_add_quantizer(j.registry, &test_quantizer, &err));
    OK(pare_model_new("mlp", digits, 10, 1, &j.model, &err));
    OK(pare_training_open(j.model, "digits", "epochs=1 limit=128 batch=64 lr=0.1 threads=1",
                          &j.training_session, &err));
    OK(pare_compression_new(j.model, &o, &j.compression, &err));
    OK(pare_compression_follow(j.compression, j.training_session, &err));
    OK(pare_compression_compress(j.compression, &err));
    return j;
}

static void close_job(struct job *j)
{
    pare_compression_free(j->compression);
    pare_training_free(j->training_session);
    pare_model_free(j->model);
    pare_registry_free(j->registry);
}

static void forward_batch(struct job *j, struct pare_tensor *x, struct pare_tensor *y,
                          struct pare_tensor *out)
{
    OK(pare_training_next(j->training_session, x, y, &err));
    OK(pare_training_forward(j->training_session, x, 1, out, &err));
}

static void test_quantization_points_are_inserted_and_removed(void **state)
{
    struct job j = open_job(
        "clip",
        "[{\"quant_types\": [\"weight\", \"input\", \"output\"], \"quant_bits\": 8, \"op_types\": "
        "[\"Linear\"]},{\"quant_types\": [\"output\"], \"quant_bits\": {\"output\": 4}, "
        "\"op_types\": [\"ReLU\"]}]");
    int nodes = j.model->graph->n_nodes, layers = pare_compression_layers(j.compression);
    struct pare_tensor x, y, out;
    double loss;

    (void)state;
    assert_int_equal(layers, 5); /* fc1, fc2, fc3 and two ReLUs */
    assert_int_equal(calls.weight, 3);
    for (int64_t i = 0; i < 100; i++) {
        float w = pare_f32(&pare_compression_layer(j.compression, 0)->weight->t)[i];

        assert_true(w * 2 == rintf(w * 2));
    }
    forward_batch(&j, &x, &y, &out);
    assert_int_equal(calls.input, 3);
    assert_int_equal(calls.output, 5);
    assert_true(calls.training);
    for (int64_t i = 0; i < pare_numel(&out); i++)
        assert_true(pare_f32(&out)[i] * 2 == rintf(pare_f32(&out)[i] * 2));
    OK(pare_training_loss(j.training_session, &y, &loss, &err));
    OK(pare_training_backward(j.training_session, &err));
    assert_int_equal(calls.back[PARE_WEIGHT], 3);
    assert_int_equal(calls.back[PARE_OUTPUT], 5);
    assert_true(calls.back[PARE_INPUT] >= 2); /* no layer before the first needs a gradient */
    OK(pare_training_optimize(j.training_session, &err));
    OK(pare_training_step(j.training_session, &err));
    pare_compression_free(j.compression);
    j.compression = NULL;
    assert_int_equal(j.model->graph->n_nodes, nodes - 8);
    memset(&calls, 0, sizeof(calls));
    forward_batch(&j, &x, &y, &out);
    assert_int_equal(calls.output, 0);
    close_job(&j);
}

/* The gradient of a weight is twice that of the same model without a quantizer's backward, with
 * equal quantized weights. */
static void test_gradients_of_quantized_weights(void **state)
{
    const char *config =
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_names\": [\"fc3\"]}]";
    struct job a = open_job("clip", config), b;
    struct pare_tensor x, y, out;
    struct pare_layer *l;
    float *doubled;
    double loss;
    int64_t n;

    (void)state;
    forward_batch(&a, &x, &y, &out);
    OK(pare_training_loss(a.training_session, &y, &loss, &err));
    OK(pare_training_backward(a.training_session, &err));
    l = pare_compression_layer(a.compression, 0);
    n = pare_numel(&l->grad);
    doubled = malloc((size_t)n * sizeof(float));
    memcpy(doubled, l->grad.data, (size_t)n * sizeof(float));
    b = open_job("clip", config);
    b.compression->quant->quantizer = &(struct pare_quantizer){ .weight = quantize_weight };
    forward_batch(&b, &x, &y, &out);
    OK(pare_training_loss(b.training_session, &y, &loss, &err));
    OK(pare_training_backward(b.training_session, &err));
    l = pare_compression_layer(b.compression, 0);
    for (int64_t i = 0; i < n; i++)
        assert_true(doubled[i] == 2 * pare_f32(&l->grad)[i]);
    free(doubled);
    close_job(&a);
    close_job(&b);
}

/* NNI's values for Naive, which rounds toward 0, not to the nearest. */
static void test_naive_values(void **state)
{
    const struct pare_algorithm *q;
    struct job j = open_job(
        "naive", "[{\"quant_types\": [\"weight\"], \"quant_bits\": {\"weight\": 8}, \"op_types\": "
                 "[\"Linear\"]}]");
    float w[3] = { 0.3f, -1, 0.996f }, y[3];
    struct pare_tensor x = { PARE_F32, 1, { 3 }, w }, out = { PARE_F32, 1, { 3 }, y };

    (void)state;
    OK(pare_find_quantizer(NULL, "naive", &q, &err));
    OK(q->quantizer->weight(&j.compression->layer[0], &x, &out, &err));
    assert_true(fabs((double)y[0] - 0.2992126) < 1e-6);
    assert_true(fabs((double)y[1] + 1) < 1e-6);
    assert_true(fabs((double)y[2] - 0.9921260) < 1e-6);
    close_job(&j);
}

/* ---- ranges: cases N9, N10, N14 -------------------------------------------------------------- */

static void expect_fit(int bits, bool has_sign, bool symmetric, double lo, double hi, double s,
                       double z)
{
    int64_t half = (int64_t)1 << (bits - 1);
    struct pare_quant q = { .bits = bits,
                            .has_sign = has_sign,
                            .symmetric = symmetric,
                            .axis = -1,
                            .qmin = has_sign ? -half + 1 : 0,
                            .qmax = has_sign ? half - 1 : 2 * half - 1 };
    float scale, zero;

    pare_quant_fit(&q, lo, hi, &scale, &zero);
    assert_true(fabs((double)scale - s) <= 1e-7 * (1 + s));
    assert_true((double)zero == z);
}

static void test_scales_from_ranges(void **state)
{
    (void)state;
    expect_fit(8, false, false, 1, 5, 5.0 / 255, 0);
    expect_fit(8, false, false, -1, 5, 6.0 / 255, 42); /* 42.5, half to even */
    expect_fit(8, true, true, 1, 18, 18.0 / 127, 0);
    expect_fit(8, false, true, 1, 18, 18.0 / 127.5, 127);
    expect_fit(8, true, false, 1, 18, 18.0 / 254, -127);
    expect_fit(8, false, false, 1, 18, 18.0 / 255, 0);
    expect_fit(8, false, false, 0, 0, 1.1920929e-07, 0); /* an empty range */
    expect_fit(8, true, true, 0, 0, 1.1920929e-07, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantization_points_are_inserted_and_removed),
        cmocka_unit_test(test_gradients_of_quantized_weights),
        cmocka_unit_test(test_naive_values),
        cmocka_unit_test(test_scales_from_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
