/* test_matrix.c - products, Einsum and recurrent layers, against values computed by hand. */
#include "one_op.h"

#include "graph/ties.h"
#include "op/matrix/matrix.h"

static const double six[] = { 1, 2, 3, 4, 5, 6 }, wt[] = { 1, 0, -1, 2, 1, 0 };

static void test_gemm_with_alpha_and_beta(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_F32, "2,3", six);
    op_in(&f, PARE_F32, "2,3", wt);
    op_in(&f, PARE_F32, "2", LIST(10, 20));
    op_attr(&f, "transB", "1");
    op_attr(&f, "alpha", "0.5");
    op_attr(&f, "beta", "2");
    op_expect(&f, 0, PARE_F32, "(2, 2)", LIST(19, 42, 19, 46.5));
    assert_true(f.node.op->macs(&f.node) == 12);
    assert_true(pare_gemm_get(&f.node).tb && !pare_gemm_get(&f.node).ta);
    op_end(&f);
}

static void test_integer_gemm_wraps_or_saturates(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_I32, "1,2", LIST(2147483647, 3));
    op_in(&f, PARE_I32, "2,1", LIST(1, 1));
    op_expect(&f, 0, PARE_I32, "(1, 1)", LIST(-2147483646));
    op_end(&f);

    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_I32, "2,1", LIST(3, -7));
    op_in(&f, PARE_I32, "1,2", LIST(1, 2));
    op_attr(&f, "alpha", "0.5");
    op_expect(&f, 0, PARE_I32, "(2, 2)", LIST(1, 3, -3, -7));
    op_end(&f);

    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_I32, "1,1", LIST(3));
    op_in(&f, PARE_I32, "1,2", LIST(1, -1));
    op_attr(&f, "alpha", "1e9");
    op_expect(&f, 0, PARE_I32, "(1, 2)", LIST(2147483647, -2147483648.0));
    op_end(&f);
}

static void test_gemm_refuses_wrong_shapes(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_F32, "2,3", six);
    op_in(&f, PARE_F32, "2,3", wt);
    op_expect_error(&f, "A is (2, 3) but B is (2, 3): 3 columns against 2 rows");

    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_F32, "6", six);
    op_in(&f, PARE_F32, "2,3", wt);
    op_expect_error(&f, "A is (6) and B is (2, 3), both must have 2 dimensions");

    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_F32, "1,3", six);
    op_in(&f, PARE_F32, "3,2", wt);
    op_in(&f, PARE_F32, "3,2", wt);
    op_expect_error(&f, "C is (3, 2), which does not broadcast to the result (1, 2)");
}

static bool has_tie(const struct pare_ties *t, const struct pare_value *a, int ax,
                    const struct pare_value *b, int bx)
{
    for (int i = 0; i < t->n; i++) {
        const struct pare_tied *p = &t->tie[i];

        if ((p->a == a && p->ax == ax && p->b == b && p->bx == bx) ||
            (p->a == b && p->ax == bx && p->b == a && p->bx == ax))
            return true;
    }
    return false;
}

static void test_gemm_ties(void **state)
{
    struct pare_ties t = { 0 };
    struct one_op f;

    (void)state;
    op_begin(&f, "Gemm", 13);
    op_in(&f, PARE_F32, "2,3", six);
    op_in(&f, PARE_F32, "2,3", wt);
    op_in(&f, PARE_F32, "2", six);
    op_attr(&f, "transB", "1");
    assert_int_equal(op_run(&f), 0);
    t.arena = f.arena;
    f.node.op->ties(&f.node, &t);
    assert_true(has_tie(&t, f.in[0], 1, f.in[1], 1));
    assert_true(has_tie(&t, f.in[1], 0, f.out[0], 1));
    assert_true(has_tie(&t, f.in[2], 0, f.out[0], 1));
    op_end(&f);
}

static void test_matmul_broadcasts_as_numpy(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "MatMul", 13);
    op_in(&f, PARE_F32, "2,1,2", six);
    op_in(&f, PARE_F32, "2,2", six);
    op_expect(&f, 0, PARE_F32, "(2, 1, 2)", LIST(7, 10, 15, 22));
    assert_true(f.node.op->macs(&f.node) == 8);
    op_end(&f);

    op_begin(&f, "MatMul", 13);
    op_in(&f, PARE_I64, "2", LIST(1, 2));
    op_in(&f, PARE_I64, "2", LIST(3, 4));
    op_expect(&f, 0, PARE_I64, "()", LIST(11));
    op_end(&f);

    op_begin(&f, "MatMul", 13); /* an empty sum */
    op_in(&f, PARE_F32, "2,0", NULL);
    op_in(&f, PARE_F32, "0,1", NULL);
    op_expect(&f, 0, PARE_F32, "(2, 1)", LIST(0, 0));
    op_end(&f);

    op_begin(&f, "MatMul", 13);
    op_in(&f, PARE_F32, "2,3", six);
    op_in(&f, PARE_F32, "2,3", six);
    op_expect_error(&f, "operands are (2, 3) and (2, 3): the left has 3 columns, the right 2 rows");

    op_begin(&f, "MatMul", 13);
    op_in(&f, PARE_F32, "", six);
    op_in(&f, PARE_F32, "2,3", six);
    op_expect_error(&f, "operands are () and (2, 3), a scalar is not a matrix");
}

static void expect_einsum(const char *equation, const char *shape, const double *want)
{
    struct one_op f;

    op_begin(&f, "Einsum", 12);
    op_in(&f, PARE_F32, "2,2", six);
    op_attr(&f, "equation", equation);
    op_expect(&f, 0, PARE_F32, shape, want);
    op_end(&f);
}

static void test_einsum_of_one_matrix(void **state)
{
    (void)state;
    expect_einsum("ij->ji", "(2, 2)", LIST(1, 3, 2, 4));
    expect_einsum("ba", "(2, 2)", LIST(1, 3, 2, 4)); /* a before b */
    expect_einsum("ii", "()", LIST(5));
    expect_einsum("ii->i", "(2)", LIST(1, 4));
    expect_einsum("...j -> ...", "(2)", LIST(3, 7));
    expect_einsum("ij->", "()", LIST(10));
}

static void expect_einsum_error(const char *equation, const char *text)
{
    struct one_op f;

    op_begin(&f, "Einsum", 12);
    op_in(&f, PARE_F32, "2,3", six);
    op_in(&f, PARE_F32, "2,3", six);
    op_attr(&f, "equation", equation);
    op_expect_error(&f, text);
}

static void test_einsum_equation_errors(void **state)
{
    (void)state;
    expect_einsum_error("ij", "the equation 'ij' does not have 2 inputs");
    expect_einsum_error("ij,ij,ij", "the equation 'ij,ij,ij' does not have 2 inputs");
    expect_einsum_error("ij,jk", "axis 0 of input 1 has 2 elements where its label has 3");
    expect_einsum_error("ijk,ij", "input 0 is (2, 3) but the equation gives it 3 labels");
    expect_einsum_error("ij,ij->x", "the equation's result has a label that no input has");
    expect_einsum_error("ij,ij->ii", "a label occurs twice in the equation's result");
    expect_einsum_error("ij,i1", "the equation has an unexpected '1'");
    expect_einsum_error("ij,ij-j", "the equation has a '-' that is not an arrow");
    expect_einsum_error("ij,ij->i,j", "the equation has more text after its result: ',j'");
    expect_einsum_error("ij,i......", "the equation has an unexpected '.'");
}

/* h = x + h, so that the states are running sums. */
static void begin_running_sum(struct one_op *f, const char *dirs)
{
    op_begin(f, "RNN", 14);
    op_in(f, PARE_F32, "3,1,1", LIST(1, 2, 3));
    op_in(f, PARE_F32, *dirs == '2' ? "2,1,1" : "1,1,1", LIST(1, 1));
    op_in(f, PARE_F32, *dirs == '2' ? "2,1,1" : "1,1,1", LIST(1, 1));
    op_attr(f, "activations", *dirs == '2' ? "Affine,affine" : "Affine");
    f->node.n_out = 2;
}

static void test_rnn_directions(void **state)
{
    struct one_op f;

    (void)state;
    begin_running_sum(&f, "1");
    op_expect(&f, 0, PARE_F32, "(3, 1, 1, 1)", LIST(1, 3, 6));
    op_expect(&f, 1, PARE_F32, "(1, 1, 1)", LIST(6));
    assert_true(f.node.op->macs(&f.node) == 6);
    op_end(&f);

    begin_running_sum(&f, "1");
    op_attr(&f, "direction", "reverse");
    op_expect(&f, 0, PARE_F32, "(3, 1, 1, 1)", LIST(6, 5, 3));
    op_end(&f);

    begin_running_sum(&f, "2");
    op_attr(&f, "direction", "bidirectional");
    op_expect(&f, 0, PARE_F32, "(3, 2, 1, 1)", LIST(1, 6, 3, 5, 6, 3));
    op_expect(&f, 1, PARE_F32, "(2, 1, 1)", LIST(6, 6));
    op_end(&f);
}

static void test_rnn_sequence_lengths(void **state)
{
    struct one_op f;

    (void)state;
    begin_running_sum(&f, "1");
    op_in_none(&f);
    op_in(&f, PARE_I32, "1", LIST(2));
    op_in(&f, PARE_F32, "1,1,1", LIST(10));
    op_expect(&f, 0, PARE_F32, "(3, 1, 1, 1)", LIST(11, 13, 0));
    op_expect(&f, 1, PARE_F32, "(1, 1, 1)", LIST(13));
    op_end(&f);

    begin_running_sum(&f, "1");
    op_in_none(&f);
    op_in(&f, PARE_I32, "1", LIST(2));
    op_attr(&f, "direction", "reverse");
    op_expect(&f, 0, PARE_F32, "(3, 1, 1, 1)", LIST(3, 2, 0));
    op_end(&f);

    begin_running_sum(&f, "1");
    op_in_none(&f);
    op_in(&f, PARE_I32, "1", LIST(4));
    op_expect_error(&f, "a sequence length is 4, but there are 3 steps");
}

static void test_rnn_clip_and_errors(void **state)
{
    struct one_op f;

    (void)state;
    begin_running_sum(&f, "1");
    op_attr(&f, "clip", "2.5");
    op_expect(&f, 0, PARE_F32, "(3, 1, 1, 1)", LIST(1, 2.5, 2.5));
    op_end(&f);

    begin_running_sum(&f, "1");
    op_attr(&f, "hidden_size", "4");
    op_expect_error(&f, "R has 1 states but hidden_size is 4");

    begin_running_sum(&f, "1");
    f.set[0] = (struct pare_setting){ 0 };
    f.n_set = 0;
    op_attr(&f, "activations", "Sine");
    op_expect_error(&f, "activation 'Sine' is not supported");

    begin_running_sum(&f, "1");
    op_in(&f, PARE_F32, "1,3", six);
    op_expect_error(&f, "B is (1, 3), expected (1, 2)");
}

/* An LSTM with linear gates: i = o = f = x / 2, n = x. */
static void expect_lstm(const char *coupled, double c, double h)
{
    struct one_op f;

    op_begin(&f, "LSTM", 14);
    op_in(&f, PARE_F32, "1,1,1", LIST(2));
    op_in(&f, PARE_F32, "1,4,1", LIST(1, 1, 1, 1));
    op_in(&f, PARE_F32, "1,4,1", LIST(0, 0, 0, 0));
    op_in_none(&f);
    op_in_none(&f);
    op_in_none(&f);
    op_in(&f, PARE_F32, "1,1,1", LIST(5));
    op_attr(&f, "activations", "Affine,Affine,Affine");
    op_attr(&f, "activation_alpha", "0.5,1,1");
    op_attr(&f, "input_forget", coupled);
    f.node.n_out = 3;
    op_expect(&f, 0, PARE_F32, "(1, 1, 1, 1)", LIST(h));
    op_expect(&f, 2, PARE_F32, "(1, 1, 1)", LIST(c));
    op_end(&f);
}

static void test_lstm_coupled_gates(void **state)
{
    (void)state;
    expect_lstm("0", 7, 7);
    expect_lstm("1", 2, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_with_alpha_and_beta),
        cmocka_unit_test(test_integer_gemm_wraps_or_saturates),
        cmocka_unit_test(test_gemm_refuses_wrong_shapes),
        cmocka_unit_test(test_gemm_ties),
        cmocka_unit_test(test_matmul_broadcasts_as_numpy),
        cmocka_unit_test(test_einsum_of_one_matrix),
        cmocka_unit_test(test_einsum_equation_errors),
        cmocka_unit_test(test_rnn_directions),
        cmocka_unit_test(test_rnn_sequence_lengths),
        cmocka_unit_test(test_rnn_clip_and_errors),
        cmocka_unit_test(test_lstm_coupled_gates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
