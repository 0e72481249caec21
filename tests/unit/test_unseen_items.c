/* test_unseen_items.c - signal-to-noise ratio of a quantized model on items that calibration has
 * not seen. */
#include "make_model.h"

#include <math.h>

#include <pare/data.h>
#include <pare/session.h>

#include "base/rng.h"
#include "quant/quant_check.h"

enum { ITEMS = 24, WIDTH = 64, BATCH = 4 };

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* Items of uniform values; each is `growth` times as large as the one before. */
static struct pare_tensor make_items(double growth)
{
    struct pare_tensor x = build_tensor(PARE_F32, 2, (int64_t[]){ ITEMS, WIDTH });
    struct pare_rng rng;

    pare_rng_init(&rng, 4);
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)(pow(growth, (double)(i / WIDTH)) *
                                      (2 * pare_rng_uniform(&rng) - 1));
    return x;
}

static struct pare_model *make_layer(void)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(-1, WIDTH)), *w;
    struct pare_tensor t = build_tensor(PARE_F32, 2, (int64_t[]){ WIDTH, WIDTH });

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = i % (WIDTH + 1) == 0;
    w = build_floats(&b, 2, t.dim, pare_f32(&t));
    x = build_node(&b, "MatMul", NAMES(x, w), NOTHING);
    build_put(&b, msg(12, build_info(x, PARE_F32, -1, NULL)));
    return build_model(&b);
}

static struct pare_quantize_check check(double growth, const char *settings)
{
    struct pare_input in = { .t = make_items(growth) };
    struct pare_arrays a = { .n = ITEMS, .input = &in, .n_inputs = 1, .batch = BATCH };
    struct pare_compression_opts o = { .quantizer = "ptq",
                                       .config = "[{\"quant_types\": [\"input\"], \"op_types\": "
                                                 "[\"default\"], \"quant_bits\": 8}]",
                                       .settings = settings,
                                       .threads = 1 };
    struct pare_model *m = make_layer();
    struct pare_quantize_check k;
    struct pare_compression *c;
    struct pare_data *data;

    ok(pare_data_from_arrays(&a, &data, &err));
    ok(pare_compression_new(m, &o, &c, &err));
    ok(pare_compression_use_data(c, data, BATCH, &err));
    ok(pare_compression_compress(c, &err));
    ok(pare_quant_check(c, false, &err));
    pare_compression_checked(c, &k);
    pare_compression_free(c);
    pare_data_free(data);
    pare_model_free(m);
    return k;
}

static void test_clipped_values_of_unseen_items(void **state)
{
    struct pare_quantize_check k = check(1.5, "observer=minmax calibration_steps=1");

    (void)state;
    assert_true(k.snr_db > 30);
    assert_true(k.new_snr_db < 15);
    assert_int_equal(k.all_seen, 0);
}

static void test_unseen_items_like_the_others(void **state)
{
    struct pare_quantize_check k = check(1, "observer=minmax calibration_steps=2");

    (void)state;
    assert_true(fabs(k.snr_db - k.new_snr_db) < 3);
}

static void test_all_items_seen(void **state)
{
    struct pare_quantize_check k = check(1, "observer=minmax calibration_steps=50");

    (void)state;
    assert_true(isnan(k.new_snr_db));
    assert_int_equal(k.all_seen, ITEMS);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_clipped_values_of_unseen_items),
        T(test_unseen_items_like_the_others),
        T(test_all_items_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
