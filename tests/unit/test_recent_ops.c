/* test_recent_ops.c - operators and attributes of opsets 22 to 26; unused nodes that cannot run. */
#include "make_model.h"

#include "grad_rows.h"

static void test_rms_normalization(void **state)
{
    static const struct row rows[] = {
        { "RMSNormalization", 23, "3,5 5", NULL, 0, { 0 } },
        { "RMSNormalization", 23, "2,3,4 3,4", "axis=1 epsilon=0.01", 0, { 0 } },
        { "RMSNormalization", 23, "2,3,4 4", "axis=1", 0, { 0 } },
        { "RMSNormalization", 23, "2,3,4 3,1", "axis=-2", 0, { 0 } },
        { "RMSNormalization", 23, "2,3 1", NULL, 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };
    struct one_op f;

    (void)state;
    check_rows(rows);
    op_begin(&f, "RMSNormalization", 23); /* the mean squares are 12.5 and 2 */
    op_in(&f, PARE_F32, "2,2", LIST(3, 4, 0, 2));
    op_in(&f, PARE_F32, "2", LIST(1, 10));
    op_attr(&f, "epsilon", "0");
    op_expect(&f, 0, PARE_F32, "(2, 2)", LIST(0.848528137, 11.3137085, 0, 14.1421356));
    op_end(&f);
    op_begin(&f, "RMSNormalization", 23);
    op_in(&f, PARE_F32, "2,2", LIST(3, 4, 0, 2));
    op_in(&f, PARE_F32, "3", LIST(1, 1, 1));
    op_expect_error(&f, "the scale is (3) but the input is (2, 2), normalized from axis 1 on");
}

static void test_cum_prod(void **state)
{
    static const struct row rows[] = {
        { "CumProd", 26, "2,4,3 #1", NULL, 0, { 0 } },
        { "CumProd", 26, "5 #0", "exclusive=1", 0, { 0 } },
        { "CumProd", 26, "2,4 #-1", "reverse=1", 0, { 0 } },
        { "CumProd", 26, "3,4 #0", "reverse=1 exclusive=1", 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };
    const double want[][3] = { { 1, 2, 6 }, { 1, 1, 2 }, { 6, 6, 3 }, { 6, 3, 1 } };
    struct one_op f;

    (void)state;
    check_rows(rows);
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < 2; d++) {
            op_begin(&f, "CumProd", 26);
            op_in(&f, d ? PARE_F32 : PARE_I64, "3", LIST(1, 2, 3));
            op_in(&f, PARE_I32, "", LIST(0));
            op_attr(&f, "exclusive", i & 1 ? "1" : "0");
            op_attr(&f, "reverse", i & 2 ? "1" : "0");
            op_expect(&f, 0, d ? PARE_F32 : PARE_I64, "(3)", want[i]);
            op_end(&f);
        }
}

static void test_bit_cast(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "BitCast", 26);
    op_in(&f, PARE_F32, "2", LIST(1, -2));
    op_attr(&f, "to", "6");
    op_expect(&f, 0, PARE_I32, "(2)", LIST(0x3f800000, -0x40000000));
    op_end(&f);
    op_begin(&f, "BitCast", 26);
    op_in(&f, PARE_F16, "2", LIST(1, 0.5));
    op_attr(&f, "to", "4");
    op_expect(&f, 0, PARE_U16, "(2)", LIST(0x3c00, 0x3800));
    op_end(&f);
    op_begin(&f, "BitCast", 26);
    op_in(&f, PARE_U4, "3", LIST(1, 8, 15));
    op_attr(&f, "to", "22");
    op_expect(&f, 0, PARE_I4, "(3)", LIST(1, -8, -1));
    op_end(&f);
    op_begin(&f, "BitCast", 26);
    op_in(&f, PARE_F32, "1", LIST(1));
    op_attr(&f, "to", "7");
    op_expect_error(&f, "float32 and int64 have different sizes");
}

/* TensorScatter into a cache of two items with three rows of two. */
static void begin_scatter(struct one_op *f, const char *mode, const double *at)
{
    op_begin(f, "TensorScatter", 24);
    op_in(f, PARE_F32, "2,3,2", LIST(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    op_in(f, PARE_F32, "2,2,2", LIST(-1, -2, -3, -4, -5, -6, -7, -8));
    if (at)
        op_in(f, PARE_I64, "2", at);
    op_attr(f, "mode", mode);
}

static void test_tensor_scatter(void **state)
{
    static const struct row rows[] = {
        { "TensorScatter", 24, "2,5,3 2,2,3 #1,3", NULL, 0, { 0 } },
        { "TensorScatter", 24, "2,4,3 2,3,3 #3,-2", "mode=circular", 0, { 0 } },
        { "TensorScatter", 24, "2,3,4 2,3,1", "axis=2", 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };
    struct one_op f;

    (void)state;
    check_rows(rows);
    begin_scatter(&f, "linear", NULL);
    op_expect(&f, 0, PARE_F32, "(2, 3, 2)", LIST(-1, -2, -3, -4, 4, 5, -5, -6, -7, -8, 10, 11));
    op_end(&f);
    begin_scatter(&f, "linear", LIST(1, 0));
    op_expect(&f, 0, PARE_F32, "(2, 3, 2)", LIST(0, 1, -1, -2, -3, -4, -5, -6, -7, -8, 10, 11));
    op_end(&f);
    begin_scatter(&f, "circular", LIST(2, -1));
    op_expect(&f, 0, PARE_F32, "(2, 3, 2)", LIST(-3, -4, 2, 3, -1, -2, -7, -8, 8, 9, -5, -6));
    op_end(&f);
    begin_scatter(&f, "linear", LIST(0, 2));
    op_expect_error(&f, "write index 2 of sample 1 leaves no room for 2 positions of 3");
}

static void test_quantize_and_dequantize_types(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "DequantizeLinear", 23);
    op_in(&f, PARE_I8, "2", LIST(3, -4));
    op_in(&f, PARE_F32, "", LIST(0.5));
    op_attr(&f, "output_dtype", "10");
    op_expect(&f, 0, PARE_F16, "(2)", LIST(1.5, -2));
    op_end(&f);
    op_begin(&f, "QuantizeLinear", 23);
    op_in(&f, PARE_F32, "2", LIST(3, 4));
    op_in(&f, PARE_F32, "", LIST(0.5));
    op_attr(&f, "precision", "10");
    op_expect_error(&f, "precision is float16, which is not supported");
}

/* A node that cannot run is an error only if an output depends on it. */
static void test_unused_nodes_that_cannot_run(void **state)
{
    const float one = 1;
    struct build b = { .opset = 26 }, used = { .opset = 26 };
    struct pare_tensor x = build_tensor(PARE_F32, 0, NULL), y;
    struct pare_plan_opts o = { .in = &x };
    struct pare_model *m;
    struct pare_plan *p;
    struct pare_err err;
    const char *in, *unknown;

    (void)state;
    in = build_input(&b, PARE_F32, 0, NULL);
    unknown = build_node(&b, "RotaryEmbedding", NAMES(in, in, in), NOTHING);
    build_node(&b, "Relu", NAMES(unknown), NOTHING);
    build_output(&b, build_node(&b, "Add", NAMES(in, build_scalar(&b, one)), NOTHING));
    m = build_model(&b);
    pare_f32_mut(&x)[0] = 3;
    assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
    assert_int_equal(pare_plan_execute(p, &x, &y, &err), 0);
    assert_true(pare_f32(&y)[0] == 4);
    pare_plan_free(p);
    pare_model_free(m);

    in = build_input(&used, PARE_F32, 0, NULL);
    unknown = build_node(&used, "RotaryEmbedding", NAMES(in, in, in), NOTHING);
    build_output(&used, build_node(&used, "Relu", NAMES(unknown), NOTHING));
    m = build_model(&used);
    assert_int_equal(pare_plan_make(m, &o, &p, &err), PARE_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "operator RotaryEmbedding (version 26) is not known"));
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rms_normalization),
        cmocka_unit_test(test_cum_prod),
        cmocka_unit_test(test_bit_cast),
        cmocka_unit_test(test_tensor_scatter),
        cmocka_unit_test(test_quantize_and_dequantize_types),
        cmocka_unit_test(test_unused_nodes_that_cannot_run),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
