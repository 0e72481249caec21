/* test_broken_layers.c - layers of models with nodes that cannot run: they are listed and quantized
 * within their memory. */
#include "make_model.h"

#include <pare/compress.h>

static struct pare_err err;

/* A weight that a Gemm and a Gather with too many inputs dequantize from the same integers. */
static void test_scales_of_a_node_that_cannot_run(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(-1, 2)), *w, *y;
    const int8_t q[4] = { 1, 2, 3, 4 };
    struct pare_layer_scales *list;
    struct pare_arena *a;
    struct pare_model *m;
    int n;

    (void)state;
    a = pare_arena_new(1 << 14);
    w = build_node(&b, "DequantizeLinear",
                   NAMES(build_const(&b, PARE_I8, INTS(2, 2), q), build_scalar(&b, 0.5f)), NOTHING);
    y = build_node(&b, "Gemm", NAMES(x, w), NOTHING);
    build_output(&b, build_node(&b, "Gather", NAMES(w, y, x), NOTHING));
    m = build_model(&b);
    assert_int_equal(pare_model_scales(m, a, &list, &n, &err), 0);
    assert_true(n >= 1);
    assert_int_equal(list[0].q[0].dtype, PARE_I8);
    pare_model_free(m);
    pare_arena_free(a);
}

/* A convolution cannot run with a list as weight, but has scales by channel. */
static void test_dynamic_quantization_of_a_list(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(-1, 2)), *y;
    struct pare_quantize_opts o = { .size = sizeof(o), .preset = "int8-dynamic" };
    struct pare_model *m, *out = NULL;
    float w[64];

    (void)state;
    for (int i = 0; i < 64; i++)
        w[i] = (float)i - 30;
    y = build_node(&b, "MatMul", NAMES(x, build_floats(&b, INTS(2, 32), w)), NOTHING);
    build_output(&b, y);
    y = build_node(&b, "Conv", NAMES(y, build_floats(&b, INTS(32), w)), NOTHING);
    build_output(&b, y);
    m = build_model(&b);
    if (!pare_quantize(m, &o, &out, NULL, &err))
        pare_model_free(out);
    else
        assert_true(err.msg[0]);
    pare_model_free(m);
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_scales_of_a_node_that_cannot_run),
        T(test_dynamic_quantization_of_a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
