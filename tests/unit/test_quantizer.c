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

/* Rounds to halves, counts calls, and passes gradients where |x| <= 1 (NNI's ClipGrad) for outputs,
 * doubled for weights. */
static struct {
    int weight, input, output, back[PARE_QUANT_SITES];
    bool training;
} seen;

static int halves(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y)
{
    seen.training = pare_compression_is_training(pare_layer_compression(l));
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32(y)[i] = rintf(pare_f32(x)[i] * 2) / 2;
    return 0;
}

static int weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *e)
{
    (void)e;
    seen.weight++;
    return halves(l, x, y);
}

static int input(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                 struct pare_err *e)
{
    (void)e;
    seen.input++;
    return halves(l, x, y);
}

static int output(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                  struct pare_err *e)
{
    (void)e;
    seen.output++;
    return halves(l, x, y);
}

static int backward(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    const struct pare_tensor *gy, struct pare_tensor *gx, struct pare_err *e)
{
    (void)l;
    (void)e;
    seen.back[site]++;
    for (int64_t i = 0; i < pare_numel(x); i++)
        pare_f32(gx)[i] = site == PARE_WEIGHT                                ? 2 * pare_f32(gy)[i]
                          : site == PARE_OUTPUT && fabsf(pare_f32(x)[i]) > 1 ? 0
                                                                             : pare_f32(gy)[i];
    return 0;
}

static const struct pare_algorithm clip = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "clip",
    .doc = "For this test.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = weight,
            .input = input,
            .output = output,
            .backward = backward,
        },
};

struct job {
    struct pare_registry *registry;
    struct pare_model *model;
    struct pare_training *learn;
    struct pare_compression *run;
};

static struct job open_job(const char *quantizer, const char *config)
{
    struct job j = { .registry = pare_registry_new(&err) };
    struct pare_compression_opts o = { .quantizer = quantizer,
                                       .config = config,
                                       .registry = j.registry };

    memset(&seen, 0, sizeof(seen));
    OK(pare_add_quantizer(j.registry, &clip, &err));
    OK(pare_model_new("mlp", digits, 10, 1, &j.model, &err));
    OK(pare_training_open(j.model, "digits", "epochs=1 limit=128 batch=64 lr=0.1 threads=1",
                          &j.learn, &err));
    OK(pare_compression_new(j.model, &o, &j.run, &err));
    OK(pare_compression_follow(j.run, j.learn, &err));
    OK(pare_compression_compress(j.run, &err));
    return j;
}

static void close_job(struct job *j)
{
    pare_compression_free(j->run);
    pare_training_free(j->learn);
    pare_model_free(j->model);
    pare_registry_free(j->registry);
}

static void forward(struct job *j, struct pare_tensor *x, struct pare_tensor *y,
                    struct pare_tensor *out)
{
    OK(pare_training_next(j->learn, x, y, &err));
    OK(pare_training_forward(j->learn, x, 1, out, &err));
}

static void test_places(void **state)
{
    struct job j = open_job(
        "clip",
        "[{\"quant_types\": [\"weight\", \"input\", \"output\"], \"quant_bits\": 8, \"op_types\": "
        "[\"Linear\"]},{\"quant_types\": [\"output\"], \"quant_bits\": {\"output\": 4}, "
        "\"op_types\": [\"ReLU\"]}]");
    int nodes = j.model->graph->n_nodes, layers = pare_compression_layers(j.run);
    struct pare_tensor x, y, out;
    double loss;

    (void)state;
    assert_int_equal(layers, 5); /* fc1, fc2, fc3 and two ReLUs */
    assert_int_equal(seen.weight, 3);
    for (int64_t i = 0; i < 100; i++) {
        float w = pare_f32(&pare_compression_layer(j.run, 0)->weight->t)[i];

        assert_true(w * 2 == rintf(w * 2));
    }
    forward(&j, &x, &y, &out);
    assert_int_equal(seen.input, 3);
    assert_int_equal(seen.output, 5);
    assert_true(seen.training);
    for (int64_t i = 0; i < pare_numel(&out); i++)
        assert_true(pare_f32(&out)[i] * 2 == rintf(pare_f32(&out)[i] * 2));
    OK(pare_training_loss(j.learn, &y, &loss, &err));
    OK(pare_training_backward(j.learn, &err));
    assert_int_equal(seen.back[PARE_WEIGHT], 3);
    assert_int_equal(seen.back[PARE_OUTPUT], 5);
    assert_true(seen.back[PARE_INPUT] >= 2); /* nothing before the first layer learns */
    OK(pare_training_optimize(j.learn, &err));
    OK(pare_training_step(j.learn, &err));
    pare_compression_free(j.run);
    j.run = NULL;
    assert_int_equal(j.model->graph->n_nodes, nodes - 8);
    memset(&seen, 0, sizeof(seen));
    forward(&j, &x, &y, &out);
    assert_int_equal(seen.output, 0);
    close_job(&j);
}

/* The gradient of a weight is twice that of the same model without a quantizer's backward, with
 * equal quantized weights. */
static void test_backward(void **state)
{
    const char *config =
        "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_names\": [\"fc3\"]}]";
    struct job a = open_job("clip", config), b;
    struct pare_tensor x, y, out;
    struct pare_layer *l;
    float *ours;
    double loss;
    int64_t n;

    (void)state;
    forward(&a, &x, &y, &out);
    OK(pare_training_loss(a.learn, &y, &loss, &err));
    OK(pare_training_backward(a.learn, &err));
    l = pare_compression_layer(a.run, 0);
    n = pare_numel(&l->grad);
    ours = malloc((size_t)n * sizeof(float));
    memcpy(ours, l->grad.data, (size_t)n * sizeof(float));
    b = open_job("clip", config);
    b.run->quant->quantizer = &(struct pare_quantizer){ .weight = weight };
    forward(&b, &x, &y, &out);
    OK(pare_training_loss(b.learn, &y, &loss, &err));
    OK(pare_training_backward(b.learn, &err));
    l = pare_compression_layer(b.run, 0);
    for (int64_t i = 0; i < n; i++)
        assert_true(ours[i] == 2 * pare_f32(&l->grad)[i]);
    free(ours);
    close_job(&a);
    close_job(&b);
}

/* NNI's values for Naive: rounds toward 0, not to the nearest. */
static void test_naive(void **state)
{
    const struct pare_algorithm *q;
    struct job j = open_job(
        "naive", "[{\"quant_types\": [\"weight\"], \"quant_bits\": {\"weight\": 8}, \"op_types\": "
                 "[\"Linear\"]}]");
    float w[3] = { 0.3f, -1, 0.996f }, y[3];
    struct pare_tensor x = { PARE_F32, 1, { 3 }, w }, out = { PARE_F32, 1, { 3 }, y };

    (void)state;
    OK(pare_find_quantizer(NULL, "naive", &q, &err));
    OK(q->quantizer->weight(&j.run->layer[0], &x, &out, &err));
    assert_true(fabs((double)y[0] - 0.2992126) < 1e-6);
    assert_true(fabs((double)y[1] + 1) < 1e-6);
    assert_true(fabs((double)y[2] - 0.9921260) < 1e-6);
    close_job(&j);
}

/* ---- ranges: N9, N10, N14 -------------------------------------------------------------------- */

static void fit(int bits, bool has_sign, bool symmetric, double lo, double hi, double s, double z)
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

static void test_ranges(void **state)
{
    (void)state;
    fit(8, false, false, 1, 5, 5.0 / 255, 0);
    fit(8, false, false, -1, 5, 6.0 / 255, 42); /* 42.5, half to even */
    fit(8, true, true, 1, 18, 18.0 / 127, 0);
    fit(8, false, true, 1, 18, 18.0 / 127.5, 127);
    fit(8, true, false, 1, 18, 18.0 / 254, -127);
    fit(8, false, false, 1, 18, 18.0 / 255, 0);
    fit(8, false, false, 0, 0, 1.1920929e-07, 0); /* an empty range */
    fit(8, true, true, 0, 0, 1.1920929e-07, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_naive),
        cmocka_unit_test(test_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
