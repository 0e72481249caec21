/* test_bias_correct.c - bias correction: padding in calibration items, shared biases, fixed batch,
 * the checker's float model, and which quantizations correct by default. */
#include "make_model.h"

#include <math.h>

#include "compress/compression.h"
#include "quant/bias_correct.h"
#include "quant/quant_check.h"
#include "quant/quant_state.h"

#include <pare/data.h>
#include <pare/session.h>

enum { ITEMS = 8, CHANNELS = 2, WIDTH = 16 };

#define CONFIG(bits)                                                                              \
    "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\", \"Linear\"], "                   \
    "\"quant_dtype\": \"int\", \"quant_scheme\": \"per_tensor_symmetric\", \"quant_bits\": " bits \
    "}]"

static struct pare_err err;
static struct pare_tensor padded;
static struct pare_data *data;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* Items whose first quarter shows channel 1 and whose other positions are padding: a constant 1 in
 * channel 0. */
static int setup(void **state)
{
    const int64_t dim[4] = { ITEMS, CHANNELS, 1, WIDTH };
    struct pare_input in = { .t = { 0 } };
    struct pare_arrays a = { .n = ITEMS, .input = &in, .n_inputs = 1, .batch = 4 };

    (void)state;
    pool = pare_arena_new(1 << 16);
    padded = build_tensor(PARE_F32, 4, dim);
    for (int64_t i = 0; i < ITEMS; i++)
        for (int64_t w = 0; w < WIDTH; w++)
            pare_f32_mut(&padded)[(i * CHANNELS + (w < WIDTH / 4)) * WIDTH + w] = 1;
    in.t = padded;
    ok(pare_data_from_arrays(&a, &data, &err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_data_free(data);
    pare_arena_free(pool);
    return 0;
}

/* 3 bits, per tensor: the levels are -3 to 3 times 0.1, so the weights become 0.1 (0.12 or 0.08
 * are rounded), and the third output keeps 0.3 exactly. */
static const float weights[] = { 0.12f, 0.08f, 0.12f, 0.13f, 0.3f, 0.3f };

static struct pare_model *conv(int64_t batch, bool two)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ batch, CHANNELS, 1, -1 });
    const char *w = build_floats(&b, 4, (int64_t[]){ 3, CHANNELS, 1, 1 }, weights);
    const char *bias = build_floats(&b, 1, (int64_t[]){ 3 }, (float[]){ 0, 0, 0 });

    build_output(&b, build_node(&b, "Conv", NAMES(in, w, bias), NOTHING));
    if (two) {
        w = build_floats(&b, 4, (int64_t[]){ 3, CHANNELS, 1, 1 }, weights);
        build_output(&b, build_node(&b, "Conv", NAMES(in, w, bias), NOTHING));
    }
    return build_model(&b);
}

static struct pare_compression *quantized(struct pare_model *m, const char *config,
                                          const char *settings)
{
    struct pare_compression_opts o = { .quantizer = "group",
                                       .config = config,
                                       .settings = settings,
                                       .threads = 1 };
    struct pare_compression *c;

    ok(pare_compression_new(m, &o, &c, &err));
    ok(pare_compression_use_data(c, data, 4, &err));
    ok(pare_compression_compress(c, &err));
    return c;
}

static const float *bias_of(const struct pare_compression *c, int layer)
{
    return pare_f32(&c->layer[layer].bias->t);
}

/* Channel 0: padding is 0.02 too small, content 0.02 too large: no bias is better for both, and the
 * mean over all positions, 0.01, would make the content worse.  Channel 1: 0.02 and 0.03 too small:
 * both get 0.02. */
static void test_padding(void **state)
{
    struct pare_model *m = conv(-1, false);
    struct pare_compression *c = quantized(m, CONFIG("3"), "bias_correction=true range=minmax");

    (void)state;
    assert_float_equal(bias_of(c, 0)[0], 0, 1e-6f);
    assert_float_equal(bias_of(c, 0)[1], 0.02f, 1e-6f);
    assert_float_equal(bias_of(c, 0)[2], 0, 1e-6f);
    pare_compression_free(c);
    pare_model_free(m);
}

/* The window of the pooling does not fit a width of 1, so that the shapes of the convolution are
 * unknown when layers are found. */
static void test_unknown_shapes(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, CHANNELS, 1, -1 });
    const char *w = build_floats(&b, 4, (int64_t[]){ 3, CHANNELS, 1, 1 }, weights);
    const char *bias = build_floats(&b, 1, (int64_t[]){ 3 }, (float[]){ 0, 0, 0 });
    struct pare_compression *c;
    struct pare_model *m;

    (void)state;
    x = build_node(&b, "MaxPool", NAMES(x),
                   CAT(at_ints("kernel_shape", INTS(1, 2)), at_ints("strides", INTS(1, 2))));
    build_output(&b, build_node(&b, "Conv", NAMES(x, w, bias), NOTHING));
    m = build_model(&b);
    c = quantized(m, CONFIG("3"), "bias_correction=true range=minmax");
    assert_float_equal(bias_of(c, 0)[0], 0, 1e-6f);
    assert_float_equal(bias_of(c, 0)[1], 0.02f, 1e-6f);
    pare_compression_free(c);
    pare_model_free(m);
}

/* Intake separates a bias of two layers, so that each is corrected. */
static void test_shared_bias(void **state)
{
    struct pare_model *m = conv(-1, true);
    struct pare_compression *c = quantized(m, CONFIG("3"), "bias_correction=true range=minmax");

    (void)state;
    assert_int_equal(c->n_layers, 2);
    for (int i = 0; i < 2; i++)
        assert_float_equal(bias_of(c, i)[1], 0.02f, 1e-6f);
    pare_compression_free(c);
    pare_model_free(m);
}

/* A model for one item at a time sees more batches than correction_steps. */
static void test_fixed_batch(void **state)
{
    struct pare_model *m = conv(1, false);
    struct pare_compression *c = quantized(m, CONFIG("3"),
                                           "bias_correction=true correction_steps=4 range=minmax");

    (void)state;
    assert_float_equal(bias_of(c, 0)[1], 0.02f, 1e-6f);
    pare_compression_free(c);
    pare_model_free(m);
}

/* The checker compares with the float model, whose biases are not corrected. */
static void test_checker(void **state)
{
    struct pare_model *m = conv(-1, false);
    struct pare_compression *c = quantized(m, CONFIG("3"), "bias_correction=true range=minmax");
    /* per position of padding and content: errors after the correction, and the float outputs */
    double noise = 3 * 0.02 * 0.02 + 0.02 * 0.02 + 0.01 * 0.01;
    double signal = 3 * (0.12 * 0.12 * 2 + 0.3 * 0.3) + 0.08 * 0.08 + 0.13 * 0.13 + 0.3 * 0.3;

    (void)state;
    ok(pare_quant_check(c, false, &err));
    assert_float_equal((float)c->quant->check.output_db, (float)(10 * log10(signal / noise)),
                       0.01f);
    assert_float_equal(bias_of(c, 0)[1], 0.02f, 1e-6f);
    pare_compression_free(c);
    pare_model_free(m);
}

/* On below 8 bits, unless switched off; off at 8 bits, and without data. */
static void test_default(void **state)
{
    static const struct {
        const char *config, *settings;
        bool data, on;
    } cases[] = {
        { CONFIG("3"), "range=minmax", true, true },
        { CONFIG("3"), "range=minmax bias_correction=false", true, false },
        { CONFIG("8"), "range=minmax", true, false },
        { CONFIG("3"), "range=minmax", false, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pare_model *m = conv(-1, false);
        struct pare_compression_opts o = { .quantizer = "group",
                                           .config = cases[i].config,
                                           .settings = cases[i].settings,
                                           .threads = 1 };
        struct pare_compression *c;

        ok(pare_compression_new(m, &o, &c, &err));
        if (cases[i].data)
            ok(pare_compression_use_data(c, data, 4, &err));
        ok(pare_compression_compress(c, &err));
        assert_float_equal(bias_of(c, 0)[1], (cases[i].on ? 0.02f : 0), 1e-6f);
        pare_compression_free(c);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padding),     cmocka_unit_test(test_unknown_shapes),
        cmocka_unit_test(test_shared_bias), cmocka_unit_test(test_fixed_batch),
        cmocka_unit_test(test_checker),     cmocka_unit_test(test_default),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
