/* test_range_trials.c - choice of an observer for each tensor by the error at the outputs. */
#include "make_model.h"

#include "base/rng.h"
#include "compress/compression.h"

#include <pare/data.h>
#include <pare/plugin.h>
#include <pare/session.h>

enum { ITEMS = 8, WIDTH = 8192, OUTLIERS = 4 };

#define CONFIG                                                                               \
    "[{\"quant_types\": [\"weight\", \"input\"], \"op_types\": [\"Conv2d\", \"Conv1d\"], "   \
    "\"quant_dtype\": \"int\", \"quant_scheme\": \"per_tensor_symmetric\", \"quant_bits\": " \
    "8}]"

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* Values within 1, and a few outliers of 100, which are rarer than 1 in 10,000. */
static struct pare_tensor make_items(void)
{
    struct pare_tensor x = build_tensor(PARE_F32, 4, (int64_t[]){ ITEMS, 1, 1, WIDTH });
    struct pare_rng rng;

    pare_rng_init(&rng, 3);
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)(2 * pare_rng_uniform(&rng) - 1);
    for (int i = 0; i < OUTLIERS; i++)
        pare_f32_mut(&x)[i * 2 * WIDTH + 7] = i % 2 ? 100 : -100;
    return x;
}

static void float_output(struct build *b, const char *name)
{
    build_put(b, msg(12, build_info(name, PARE_F32, -1, NULL)));
}

/* Conv of x, and Clip of Conv of -x: the same values, but the outliers do not reach the second
 * output. */
static struct pare_model *two_layers(int64_t batch)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 4, (int64_t[]){ batch, 1, 1, -1 });
    const char *w = build_floats(&b, 4, (int64_t[]){ 1, 1, 1, 1 }, (float[]){ 1 });
    const char *v = build_floats(&b, 4, (int64_t[]){ 1, 1, 1, 1 }, (float[]){ 1 });
    const char *y;

    float_output(&b, build_node(&b, "Conv", NAMES(x, w), NOTHING));
    y = build_node(&b, "Conv", NAMES(build_node(&b, "Neg", NAMES(x), NOTHING), v), NOTHING);
    float_output(&b, build_node(&b, "Clip", NAMES(y, build_scalar(&b, -1), build_scalar(&b, 1)),
                                NOTHING));
    return build_model(&b);
}

static float input_scale(struct pare_compression *c, int layer)
{
    struct pare_tensor *s = pare_layer_scale(pare_compression_layer(c, layer), PARE_INPUT, 1, &err);

    assert_non_null(s);
    return pare_f32(s)[0];
}

/* Also where the model's batch is fixed: all items count, not only the first. */
static void test_per_tensor(void **state)
{
    struct pare_tensor x = make_items();
    struct pare_input in = { .t = x };
    struct pare_arrays a = { .n = ITEMS, .input = &in, .n_inputs = 1, .batch = ITEMS };
    struct pare_compression_opts o = { .quantizer = "ptq", .config = CONFIG, .threads = 1 };

    (void)state;
    for (int64_t batch = -1; batch <= 1; batch += 2) {
        struct pare_model *m = two_layers(batch);
        struct pare_compression *c;
        struct pare_data *data;

        ok(pare_data_from_arrays(&a, &data, &err));
        ok(pare_compression_new(m, &o, &c, &err));
        ok(pare_compression_use_data(c, data, ITEMS, &err));
        ok(pare_compression_compress(c, &err));
        assert_int_equal(pare_compression_layers(c), 2);
        assert_true(input_scale(c, 0) > 0.7f);  /* 100 / 127: the output needs the outliers */
        assert_true(input_scale(c, 1) < 0.05f); /* 1 / 127, with some room */
        for (int i = 0; i < 2; i++) {           /* all points are quantized again */
            assert_non_null(pare_layer_quant(pare_compression_layer(c, i), PARE_INPUT));
            assert_non_null(pare_layer_quant(pare_compression_layer(c, i), PARE_WEIGHT));
        }
        pare_compression_free(c);
        pare_data_free(data);
        pare_model_free(m);
    }
}

static int setup(void **state)
{
    (void)state;
    pool = pare_arena_new(1 << 16);
    return pool ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_per_tensor) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
