/* test_quantized_tables.c - tables of embeddings: Gather of an 8-bit table with a DequantizeLinear
 * after it is a layer, and all presets of integers quantize a float table. */
#include "make_model.h"

#include <pare/compress.h>

#define ROWS 20
#define WIDTH 8

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* Gather of an 8-bit table, or of a float one, and a linear layer. */
static struct pare_model *lookup(bool quantized)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_I64, 2, (int64_t[]){ -1, -1 }), *y;
    const int64_t shape[2] = { ROWS, WIDTH };
    int8_t *q = pare_alloc(pool, ROWS * WIDTH, 1);
    float *f = pare_alloc(pool, ROWS * WIDTH, sizeof(*f));

    for (int i = 0; i < ROWS * WIDTH; i++) {
        q[i] = (int8_t)(i * 31 % 255 - 127);
        f[i] = (float)q[i] / 100;
    }
    if (quantized) {
        int8_t zero = 3;

        y = build_node(&b, "Gather", NAMES(build_const(&b, PARE_I8, 2, shape, q), x), NOTHING);
        y = build_node(&b, "DequantizeLinear",
                       NAMES(y, build_scalar(&b, 0.25f), build_const(&b, PARE_I8, 0, NULL, &zero)),
                       NOTHING);
    } else {
        y = build_node(&b, "Gather", NAMES(build_floats(&b, 2, shape, f), x), NOTHING);
    }
    y = build_node(&b, "MatMul", NAMES(y, build_floats(&b, 2, (int64_t[]){ WIDTH, WIDTH }, f + 16)),
                   NOTHING);
    build_output(&b, y);
    return build_model(&b);
}

static void test_quantized_table_is_a_layer(void **state)
{
    struct pare_model *m = lookup(true);
    const struct pare_model_layer *l;
    struct pare_model_quant q;
    int n;

    (void)state;
    ok(pare_model_list_layers(m, pool, &l, &n, &err));
    assert_int_equal(n, 2);
    assert_string_equal(l[0].type, "Embedding");
    assert_int_equal(l[0].params, ROWS * WIDTH);
    ok(pare_model_layer_quant(m, l[0].name, 'w', &q, &err));
    assert_int_equal(q.dtype, PARE_I8);
    assert_int_equal(q.axis, -1);
    assert_true(pare_f32(&q.scale)[0] == 0.25f);
    pare_model_free(m);
}

/* The quantized table stays as it is; the linear layer is quantized. */
static void test_presets_leave_a_quantized_table(void **state)
{
    static const char *const presets[] = { "int8-weights", "w4", "int8-dynamic" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_quantize_opts o = { .size = sizeof(o), .preset = presets[i] };
        struct pare_model *m = lookup(true), *out = NULL;
        struct pare_quantize_report r = { 0 };

        ok(pare_quantize(m, &o, &out, &r, &err));
        assert_int_equal(r.layers, 1);
        pare_model_free(out);
        pare_model_free(m);
    }
}

static void test_presets_quantize_tables(void **state)
{
    static const char *const presets[] = { "int8-weights", "w4", "int8-dynamic" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_quantize_opts o = { .size = sizeof(o), .preset = presets[i] };
        struct pare_model *m = lookup(false), *out = NULL;
        struct pare_quantize_report r = { 0 };
        const struct pare_model_layer *l;
        int n;

        ok(pare_quantize(m, &o, &out, &r, &err));
        assert_int_equal(r.layers, 2);
        ok(pare_model_list_layers(out, pool, &l, &n, &err));
        assert_int_equal(n, 2);
        assert_int_equal(l[0].params, ROWS * WIDTH);
        pare_model_free(out);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quantized_table_is_a_layer, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_presets_leave_a_quantized_table, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_presets_quantize_tables, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
