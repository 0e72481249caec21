/* test_reduce.c - reductions, softmax, selection and losses, against values computed by hand. */
#include <math.h>

#include "one_op.h"

#include "op/matrix/matrix.h"

static const double eight[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static void test_axes_as_attribute_or_input(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "ReduceSum", 11);
    op_in(&f, PARE_F32, "2,2,2", eight);
    op_attr(&f, "axes", "0,-1");
    op_expect(&f, 0, PARE_F32, "(1, 2, 1)", LIST(14, 22));
    op_end(&f);

    op_begin(&f, "ReduceSum", 13);
    op_in(&f, PARE_F32, "2,2,2", eight);
    op_in(&f, PARE_I64, "2", LIST(-1, 0));
    op_attr(&f, "keepdims", "0");
    op_expect(&f, 0, PARE_F32, "(2)", LIST(14, 22));
    op_end(&f);

    op_begin(&f, "ReduceSum", 13);
    op_in(&f, PARE_F32, "2,2,2", eight);
    op_in(&f, PARE_I64, "0", NULL);
    op_expect(&f, 0, PARE_F32, "(1, 1, 1)", LIST(36));
    op_end(&f);

    op_begin(&f, "ReduceSumSquare", 18);
    op_in(&f, PARE_F32, "3", eight);
    op_attr(&f, "noop_with_empty_axes", "1");
    op_expect(&f, 0, PARE_F32, "(3)", LIST(1, 4, 9));
    op_end(&f);

    op_begin(&f, "ReduceMax", 18);
    op_in(&f, PARE_F32, "2,2,2", eight);
    op_in(&f, PARE_I64, "1", LIST(3));
    op_expect_error(&f, "axis 3 is outside a tensor of 3 dimensions");
}

static void test_empty_reductions_give_the_neutral_element(void **state)
{
    static const struct {
        const char *op;
        enum pare_dtype d;
        double want;
    } row[] = {
        { "ReduceSum", PARE_F32, 0 },
        { "ReduceProd", PARE_F32, 1 },
        { "ReduceMax", PARE_F32, -INFINITY },
        { "ReduceMin", PARE_F32, INFINITY },
        { "ReduceMax", PARE_I8, -128 },
        { "ReduceMin", PARE_U8, 255 },
        { "ReduceMin", PARE_BOOL, 1 },
        { "ReduceLogSumExp", PARE_F32, -INFINITY },
        { "ReduceMin", PARE_U64, 18446744073709551615.0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        struct one_op f;

        op_begin(&f, row[i].op, 20);
        op_in(&f, row[i].d, "2,0", NULL);
        op_in(&f, PARE_I64, "1", LIST(1));
        op_expect(&f, 0, row[i].d, "(2, 1)", LIST(row[i].want, row[i].want));
        op_end(&f);
    }
}

static void test_mean_of_many_elements(void **state)
{
    enum { N = 1 << 20 };
    double *v = test_calloc(N, sizeof(*v));
    struct one_op f;

    (void)state;
    for (int i = 0; i < N; i++)
        v[i] = 16777217.0 / N * 0.5 + 8.0;
    op_begin(&f, "ReduceMean", 13);
    op_in(&f, PARE_F32, "1048576", v);
    op_attr(&f, "keepdims", "0");
    op_expect(&f, 0, PARE_F32, "()", LIST((double)(float)v[0]));
    op_end(&f);
    test_free(v);
}

static void test_softmax_flattens_before_opset_13(void **state)
{
    const double four[] = { 0, 0, 0, 0 };
    bool flatten;
    struct one_op f;

    (void)state;
    op_begin(&f, "Softmax", 11);
    op_in(&f, PARE_F32, "1,2,2", four);
    op_expect(&f, 0, PARE_F32, "(1, 2, 2)", LIST(.25, .25, .25, .25));
    assert_int_equal(pare_softmax_axis(&f.node, &flatten), 1);
    assert_true(flatten);
    op_end(&f);

    op_begin(&f, "Softmax", 13);
    op_in(&f, PARE_F32, "1,2,2", four);
    op_expect(&f, 0, PARE_F32, "(1, 2, 2)", LIST(.5, .5, .5, .5));
    assert_int_equal(pare_softmax_axis(&f.node, &flatten), 2);
    assert_false(flatten);
    op_end(&f);

    op_begin(&f, "Softmax", 13);
    op_in(&f, PARE_F32, "4", four);
    op_attr(&f, "axis", "1");
    op_expect_error(&f, "axis 1 is outside a tensor of 1 dimensions");
}

static void test_top_k_takes_the_first_of_equals(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "TopK", 11);
    op_in(&f, PARE_I32, "5", LIST(2, 7, 7, 1, 7));
    op_in(&f, PARE_I64, "1", LIST(4));
    f.node.n_out = 2;
    op_expect(&f, 0, PARE_I32, "(4)", LIST(7, 7, 7, 2));
    op_expect(&f, 1, PARE_I64, "(4)", LIST(1, 2, 4, 0));
    op_end(&f);

    op_begin(&f, "TopK", 9);
    op_in(&f, PARE_F32, "2,2", LIST(-1, -2, -3, 0));
    op_attr(&f, "k", "1");
    op_attr(&f, "axis", "0");
    f.node.n_out = 2;
    op_expect(&f, 0, PARE_F32, "(1, 2)", LIST(-1, 0));
    op_expect(&f, 1, PARE_I64, "(1, 2)", LIST(0, 1));
    op_end(&f);

    op_begin(&f, "TopK", 11);
    op_in(&f, PARE_F32, "3", eight);
    op_in(&f, PARE_I64, "1", LIST(4));
    f.node.n_out = 2;
    op_expect_error(&f, "k is 4, axis 0 has 3 elements");
}

static void test_arg_max_and_cum_sum(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "ArgMax", 13);
    op_in(&f, PARE_F32, "2,3", LIST(1, 9, 9, 5, 4, 5));
    op_attr(&f, "axis", "1");
    op_attr(&f, "select_last_index", "1");
    op_attr(&f, "keepdims", "0");
    op_expect(&f, 0, PARE_I64, "(2)", LIST(2, 2));
    op_end(&f);

    op_begin(&f, "ArgMin", 13);
    op_in(&f, PARE_F32, "2,0", NULL);
    op_attr(&f, "axis", "1");
    op_expect_error(&f, "axis 1 is empty, there is no element to select");

    op_begin(&f, "CumSum", 14);
    op_in(&f, PARE_I32, "4", eight);
    op_in(&f, PARE_I64, "", LIST(0));
    op_attr(&f, "reverse", "1");
    op_attr(&f, "exclusive", "1");
    op_expect(&f, 0, PARE_I32, "(4)", LIST(9, 7, 4, 0));
    op_end(&f);

    op_begin(&f, "CumSum", 14);
    op_in(&f, PARE_I32, "4", eight);
    op_in(&f, PARE_I64, "", LIST(1));
    op_expect_error(&f, "axis 1 is outside a tensor of 1 dimensions");
}

static void test_losses_ignore_and_check_labels(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "NegativeLogLikelihoodLoss", 13);
    op_in(&f, PARE_F32, "3,2", LIST(-1, -2, -3, -4, -5, -6));
    op_in(&f, PARE_I64, "3", LIST(0, 1, -1));
    op_in(&f, PARE_F32, "2", LIST(1, 3));
    op_attr(&f, "ignore_index", "-1");
    op_expect(&f, 0, PARE_F32, "()", LIST((1 + 12) / 4.0));
    op_end(&f);

    op_begin(&f, "NegativeLogLikelihoodLoss", 13);
    op_in(&f, PARE_F32, "1,2", LIST(-1, -2));
    op_in(&f, PARE_I64, "1", LIST(2));
    op_expect_error(&f, "a label is 2, there are 2 classes");

    op_begin(&f, "SoftmaxCrossEntropyLoss", 13);
    op_in(&f, PARE_F32, "1,2", LIST(0, 0));
    op_in(&f, PARE_I32, "1", LIST(1));
    f.node.n_out = 2;
    op_expect(&f, 0, PARE_F32, "()", LIST(0.69314718));
    op_expect(&f, 1, PARE_F32, "(1, 2)", LIST(-0.69314718, -0.69314718));
    op_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes_as_attribute_or_input),
        cmocka_unit_test(test_empty_reductions_give_the_neutral_element),
        cmocka_unit_test(test_mean_of_many_elements),
        cmocka_unit_test(test_softmax_flattens_before_opset_13),
        cmocka_unit_test(test_top_k_takes_the_first_of_equals),
        cmocka_unit_test(test_arg_max_and_cum_sum),
        cmocka_unit_test(test_losses_ignore_and_check_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
