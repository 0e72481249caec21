/* test_quant_ops.c - quantization operators against values computed by hand. */
#include "one_op.h"

static void test_quantize_rounds_to_even_and_saturates(void **state)
{
    const double x[] = { 1, 3, 5, -1, -3, 1000, -1000 };
    struct one_op f;

    (void)state;
    op_begin(&f, "QuantizeLinear", 13);
    op_in(&f, PARE_F32, "7", x);
    op_in(&f, PARE_F32, "", LIST(2));
    op_in(&f, PARE_I8, "", LIST(0));
    op_expect(&f, 0, PARE_I8, "(7)", LIST(0, 2, 2, 0, -2, 127, -128));
    op_end(&f);

    op_begin(&f, "QuantizeLinear", 10);
    op_in(&f, PARE_F32, "7", x);
    op_in(&f, PARE_F32, "", LIST(2));
    op_in(&f, PARE_U8, "", LIST(128));
    op_expect(&f, 0, PARE_U8, "(7)", LIST(128, 130, 130, 128, 126, 255, 0));
    op_end(&f);

    op_begin(&f, "QuantizeLinear", 21);
    op_in(&f, PARE_F32, "7", x);
    op_in(&f, PARE_F32, "", LIST(0.01));
    op_in(&f, PARE_U16, "", LIST(1000));
    op_expect(&f, 0, PARE_U16, "(7)", LIST(1100, 1300, 1500, 900, 700, 65535, 0));
    op_end(&f);

    op_begin(&f, "QuantizeLinear", 21);
    op_in(&f, PARE_F32, "4", LIST(100, -100, 3.5, -2.5));
    op_in(&f, PARE_F32, "", LIST(1));
    op_attr(&f, "output_dtype", "22");
    op_expect(&f, 0, PARE_I4, "(4)", LIST(7, -8, 4, -2));
    op_end(&f);
}

static void test_scales_along_an_axis_and_in_blocks(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "QuantizeLinear", 13);
    op_in(&f, PARE_F32, "2,2", LIST(2, 4, 6, 8));
    op_in(&f, PARE_F32, "2", LIST(2, 4));
    op_in(&f, PARE_U8, "2", LIST(0, 10));
    op_attr(&f, "axis", "0");
    op_expect(&f, 0, PARE_U8, "(2, 2)", LIST(1, 2, 12, 12));
    op_end(&f);

    op_begin(&f, "DequantizeLinear", 13);
    op_in(&f, PARE_I8, "2,2", LIST(1, 2, 3, 4));
    op_in(&f, PARE_F32, "2", LIST(2, 10));
    op_expect(&f, 0, PARE_F32, "(2, 2)", LIST(2, 20, 6, 40));
    op_end(&f);

    op_begin(&f, "DequantizeLinear", 21); /* the last block is short */
    op_in(&f, PARE_U4, "1,3", LIST(1, 2, 15));
    op_in(&f, PARE_F32, "1,2", LIST(2, 3));
    op_in(&f, PARE_U4, "1,2", LIST(0, 5));
    op_attr(&f, "block_size", "2");
    op_expect(&f, 0, PARE_F32, "(1, 3)", LIST(2, 4, 30));
    op_end(&f);
}

static void test_dequantized_type_follows_the_scale(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "DequantizeLinear", 19);
    op_in(&f, PARE_U8, "3", LIST(0, 128, 255));
    op_in(&f, PARE_F16, "", LIST(0.5));
    op_in(&f, PARE_U8, "", LIST(128));
    op_expect(&f, 0, PARE_F16, "(3)", LIST(-64, 0, 63.5));
    op_end(&f);

    op_begin(&f, "DequantizeLinear", 10); /* a difference of 33 bits */
    op_in(&f, PARE_I32, "1", LIST(-2147483648.0));
    op_in(&f, PARE_F32, "", LIST(1));
    op_in(&f, PARE_I32, "", LIST(2147483647));
    op_expect(&f, 0, PARE_F32, "(1)", LIST(-4294967296.0));
    op_end(&f);
}

static void test_wrong_shapes_and_types_are_errors(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "QuantizeLinear", 13);
    op_in(&f, PARE_F32, "2,2", LIST(2, 4, 6, 8));
    op_in(&f, PARE_F32, "3", LIST(2, 4, 1));
    op_expect_error(&f, "scale is (3), which does not fit axis 1 of an input (2, 2)");

    op_begin(&f, "QuantizeLinear", 13);
    op_in(&f, PARE_F32, "2,2", LIST(2, 4, 6, 8));
    op_in(&f, PARE_F32, "2", LIST(2, 4));
    op_in(&f, PARE_U8, "3", LIST(0, 0, 0));
    op_expect_error(&f, "scale is (2) but zero point is (3)");

    op_begin(&f, "QuantizeLinear", 21);
    op_in(&f, PARE_F32, "4,2", LIST(2, 4, 6, 8, 1, 2, 3, 4));
    op_in(&f, PARE_F32, "2,2", LIST(2, 4, 1, 1));
    op_attr(&f, "block_size", "3");
    op_expect_error(&f, "scale is (2, 2), which does not fit axis 1 of an input (4, 2) in blocks");

    op_begin(&f, "QuantizeLinear", 21);
    op_in(&f, PARE_F32, "1", LIST(2));
    op_in(&f, PARE_F32, "", LIST(2));
    op_attr(&f, "output_dtype", "7");
    op_expect_error(&f, "the result is int64, which is not supported");

    op_begin(&f, "QLinearConv", 10);
    op_in(&f, PARE_U8, "1,1,2", LIST(1, 2));
    op_in(&f, PARE_F32, "2", LIST(1, 1));
    op_in(&f, PARE_U8, "", LIST(0));
    op_in(&f, PARE_U8, "1,1,1", LIST(1));
    op_in(&f, PARE_F32, "", LIST(1));
    op_in(&f, PARE_U8, "", LIST(0));
    op_in(&f, PARE_F32, "", LIST(1));
    op_in(&f, PARE_U8, "", LIST(0));
    op_expect_error(&f, "x_scale has 2 elements, expected 1");

    op_begin(&f, "MatMulInteger", 10);
    op_in(&f, PARE_U8, "2,2", LIST(1, 2, 3, 4));
    op_in(&f, PARE_U8, "2,1", LIST(1, 1));
    op_in(&f, PARE_U8, "3", LIST(0, 0, 0));
    op_expect_error(&f, "a scale or zero point is (3), which does not broadcast to (2, 2)");

    op_begin(&f, "MatMulInteger", 10);
    op_in(&f, PARE_U8, "2,2", LIST(1, 2, 3, 4));
    op_in(&f, PARE_I32, "2,1", LIST(1, 1));
    op_expect_error(&f, "B is int32, which is not supported here");
}

/* The example of the ONNX documentation. */
static void test_dynamic_quantization(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "DynamicQuantizeLinear", 11);
    op_in(&f, PARE_F32, "6", LIST(0, 2, -3, -2.5, 1.34, 0.5));
    f.node.n_out = 3;
    op_expect(&f, 0, PARE_U8, "(6)", LIST(153, 255, 0, 26, 221, 179));
    op_expect(&f, 1, PARE_F32, "()", LIST(0.0196078438));
    op_expect(&f, 2, PARE_U8, "()", LIST(153));
    op_end(&f);
}

static void test_integer_products(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "MatMulInteger", 10); /* a zero point per row, one for B */
    op_in(&f, PARE_U8, "2,2", LIST(10, 11, 12, 13));
    op_in(&f, PARE_I8, "2,1", LIST(-1, 1));
    op_in(&f, PARE_U8, "2", LIST(10, 12));
    op_in(&f, PARE_I8, "", LIST(1));
    op_expect(&f, 0, PARE_I32, "(2, 1)", LIST(0, 0));
    assert_true(f.node.op->macs(&f.node) == 4);
    op_end(&f);

    op_begin(&f, "QLinearMatMul", 10); /* a scale per column of B */
    op_in(&f, PARE_U8, "1,2", LIST(3, 5));
    op_in(&f, PARE_F32, "", LIST(0.5));
    op_in(&f, PARE_U8, "", LIST(1));
    op_in(&f, PARE_I8, "2,2", LIST(1, 2, 3, 100));
    op_in(&f, PARE_F32, "2", LIST(0.5, 1));
    op_in(&f, PARE_I8, "2", LIST(0, 0));
    op_in(&f, PARE_F32, "", LIST(1));
    op_in(&f, PARE_I8, "", LIST(-1));
    op_expect(&f, 0, PARE_I8, "(1, 2)", LIST(3, 127)); /* 14 / 4 rounds to 4 */
    op_end(&f);
}

static void test_integer_convolutions(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "ConvInteger", 10); /* padding is the zero point */
    op_in(&f, PARE_U8, "1,1,2", LIST(7, 8));
    op_in(&f, PARE_U8, "1,1,3", LIST(2, 2, 2));
    op_in(&f, PARE_U8, "", LIST(5));
    op_in(&f, PARE_U8, "1", LIST(1));
    op_attr(&f, "pads", "1,1");
    op_expect(&f, 0, PARE_I32, "(1, 1, 2)", LIST(5, 5));
    op_end(&f);

    op_begin(&f, "QLinearConv", 10); /* (x - 1) * 2 + 4, times a quarter, plus 10 */
    op_in(&f, PARE_U8, "1,1,2,2", LIST(1, 2, 3, 4));
    op_in(&f, PARE_F32, "", LIST(0.5));
    op_in(&f, PARE_U8, "", LIST(1));
    op_in(&f, PARE_I8, "1,1,1,1", LIST(2));
    op_in(&f, PARE_F32, "1", LIST(0.5));
    op_in(&f, PARE_I8, "1", LIST(0));
    op_in(&f, PARE_F32, "", LIST(1));
    op_in(&f, PARE_U8, "", LIST(10));
    op_in(&f, PARE_I32, "1", LIST(4));
    op_expect(&f, 0, PARE_U8, "(1, 1, 2, 2)", LIST(11, 12, 12, 12));
    assert_true(f.node.op->macs(&f.node) == 4);
    op_end(&f);

    op_begin(&f, "QLinearConv", 10); /* a scale and a zero point per channel */
    op_in(&f, PARE_I8, "1,2,1", LIST(10, -10));
    op_in(&f, PARE_F32, "", LIST(1));
    op_in(&f, PARE_I8, "", LIST(0));
    op_in(&f, PARE_I8, "2,1,1", LIST(3, 3));
    op_in(&f, PARE_F32, "2", LIST(1, 0.1));
    op_in(&f, PARE_I8, "2", LIST(1, 2));
    op_in(&f, PARE_F32, "", LIST(1));
    op_in(&f, PARE_I8, "", LIST(0));
    op_attr(&f, "group", "2");
    op_expect(&f, 0, PARE_I8, "(1, 2, 1)", LIST(20, -1));
    op_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantize_rounds_to_even_and_saturates),
        cmocka_unit_test(test_scales_along_an_axis_and_in_blocks),
        cmocka_unit_test(test_dequantized_type_follows_the_scale),
        cmocka_unit_test(test_wrong_shapes_and_types_are_errors),
        cmocka_unit_test(test_dynamic_quantization),
        cmocka_unit_test(test_integer_products),
        cmocka_unit_test(test_integer_convolutions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
