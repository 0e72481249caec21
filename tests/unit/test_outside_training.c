/* test_outside_training.c - layers that another framework computes: weights, masks, quantizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include <pare/compress.h>

#include "onnx/model.h"

static struct pare_err err;

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

static struct pare_model *lenet(void)
{
    struct pare_model *m;

    OK(pare_model_new("lenet", (int64_t[]){ 1, 8, 8 }, 10, 1, &m, &err));
    return m;
}

static void test_initializer_gets_a_new_value(void **state)
{
    struct pare_model *m = lenet();
    struct pare_tensor t, old;
    float bias[10];

    (void)state;
    for (int i = 0; i < 10; i++)
        bias[i] = (float)i;
    OK(pare_model_tensor(m, "fc2.bias", &old, &err));
    t = old;
    t.data = bias;
    OK(pare_model_set_tensor(m, "fc2.bias", &t, &err));
    OK(pare_model_tensor(m, "fc2.bias", &old, &err));
    assert_memory_equal(old.data, bias, sizeof(bias));
    t.dim[0] = 9;
    assert_int_equal(pare_model_set_tensor(m, "fc2.bias", &t, &err), PARE_ESHAPE);
    t.dim[0] = 10;
    t.dtype = PARE_I32;
    assert_int_equal(pare_model_set_tensor(m, "fc2.bias", &t, &err), PARE_ESHAPE);
    assert_int_equal(pare_model_set_tensor(m, "nothing", &t, &err), PARE_ECONFIG);
    pare_model_free(m);
}

/* A new weight decides the next mask. */
static void test_masks_follow_the_new_weight(void **state)
{
    static const char *const names[] = { "fc2", NULL };
    const struct pare_rule rule = { .op_names = names, .keys = "sparsity=0.5" };
    const struct pare_compression_opts o = { .size = sizeof(o),
                                             .pruner = "level",
                                             .rule = &rule,
                                             .n_rules = 1 };
    struct pare_model *m = lenet();
    struct pare_compression *c;
    struct pare_layer *l;
    struct pare_tensor t;
    static float w[10 * 500];
    int64_t n = 0;

    (void)state;
    OK(pare_compression_new(m, &o, &c, &err));
    l = pare_compression_layer(c, 0);
    t = *pare_layer_weight(l);
    assert_true(pare_numel(&t) <= 10 * 500);
    n = pare_numel(&t);
    for (int64_t i = 0; i < n; i++)
        w[i] = (float)(i + 1);
    t.data = w;
    OK(pare_layer_set_weight(l, &t, &err));
    OK(pare_compression_compress(c, &err));
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(((const uint8_t *)pare_layer_mask(l)->data)[i], i >= n / 2);
    t.dim[0]++;
    assert_int_equal(pare_layer_set_weight(l, &t, &err), PARE_ESHAPE);
    pare_compression_free(c);
    pare_model_free(m);
}

static void test_ranges_are_tracked_in_training_only(void **state)
{
    static const char *const names[] = { "conv2", NULL };
    const struct pare_rule rule = { .op_names = names, .keys = "quant_types=output quant_bits=8" };
    const struct pare_compression_opts o = { .size = sizeof(o),
                                             .quantizer = "qat",
                                             .rule = &rule,
                                             .n_rules = 1 };
    const struct pare_training_opts to = { .size = sizeof(to), .settings = "optimizer=sgd lr=0.1" };
    struct pare_model *m = lenet();
    struct pare_training *t;
    struct pare_compression *c;
    struct pare_layer *l;
    float x[4] = { -1, 0, 0.5f, 1.55f }, y[4], gy[4] = { 1, 1, 1, 1 }, gx[4];
    struct pare_tensor in = { PARE_F32, 2, { 1, 4 }, x }, out = in, g = in, gin = in;

    (void)state;
    out.data = y, g.data = gy, gin.data = gx;
    OK(pare_training_new(m, &to, &t, &err));
    OK(pare_compression_new(m, &o, &c, &err));
    OK(pare_compression_follow(c, t, &err));
    OK(pare_compression_compress(c, &err));
    l = pare_compression_layer(c, 0);
    OK(pare_layer_quantize(l, PARE_OUTPUT, false, &in, &out, &err));
    assert_memory_equal(x, y, sizeof(x)); /* no range is known yet */
    OK(pare_layer_quantize(l, PARE_OUTPUT, true, &in, &out, &err));
    assert_float_equal(pare_f32(pare_layer_scale(l, PARE_OUTPUT, 1, &err))[0], 2.55 / 255, 1e-6);
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(x[i] - y[i]) <= 0.0051f);
    x[0] = -5;
    OK(pare_layer_quantize(l, PARE_OUTPUT, false, &in, &out, &err));
    assert_float_equal(y[0], -1, 1e-5);
    OK(pare_layer_quantize_back(l, PARE_OUTPUT, &in, &g, &gin, &err));
    assert_float_equal(gx[0], 0, 0); /* it was clamped */
    assert_float_equal(gx[2], 1, 0);
    OK(pare_layer_quantize(l, PARE_INPUT, true, &in, &out, &err));
    assert_memory_equal(x, y, sizeof(x)); /* the config does not quantize inputs */
    out.dim[1] = 3;
    assert_int_equal(pare_layer_quantize(l, PARE_OUTPUT, true, &in, &out, &err), PARE_ESHAPE);
    pare_compression_free(c);
    pare_training_free(t);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initializer_gets_a_new_value),
        cmocka_unit_test(test_masks_follow_the_new_weight),
        cmocka_unit_test(test_ranges_are_tracked_in_training_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
