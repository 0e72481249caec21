/* test_grad_matrix.c - gradients of matrix products, reductions, softmax and losses. */
#include "grad_rows.h"

/* ---- matrix products ------------------------------------------------------------ */

static void test_gradients_of_gemm(void **state)
{
    static const struct row rows[] = {
        { "Gemm", 13, "4,3 3,2", NULL, 0, { 0 } },
        { "Gemm", 13, "4,3 3,2 2", NULL, 0, { 0 } },
        { "Gemm", 13, "3,4 3,2 4,1", "transA=1 alpha=0.5 beta=-2", 0, { 0 } },
        { "Gemm", 13, "4,3 2,3 4,2", "transB=1 beta=0.25", 0, { 0 } },
        { "Gemm", 13, "3,4 2,3 1,2", "transA=1 transB=1 alpha=-1.5", 0, { 0 } },
        { "Gemm", 13, "2,3 3,2 1", "beta=2", 0, { 0 } },
        { "Gemm", 7, "2,70 70,3 1,1", NULL, 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };

    (void)state;
    check_rows(rows);
}

static void test_gradients_of_matmul(void **state)
{
    static const struct row rows[] = {
        { "MatMul", 13, "4,3 3,2", NULL, 0, { 0 } },
        { "MatMul", 13, "3 3,2", NULL, 0, { 0 } },
        { "MatMul", 13, "4,3 3", NULL, 0, { 0 } },
        { "MatMul", 13, "5 5", NULL, 0, { 0 } },
        { "MatMul", 13, "2,3,4 4,2", NULL, 0, { 0 } },
        { "MatMul", 13, "2,2,3,4 4", NULL, 0, { 0 } },
        { "MatMul", 13, "3,4 2,4,2", NULL, 0, { 0 } },
        { "MatMul", 13, "4 2,4,2", NULL, 0, { 0 } },
        { "MatMul", 13, "2,1,3,2 3,2,2", NULL, 0, { 0 } },
        { "MatMul", 13, "2,3,2,3 2,3,3,2", NULL, 0, { 0 } },
        { "MatMul", 13, "1,2,3 3,3,2", NULL, 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };
    struct one_op f;

    (void)state;
    check_rows(rows);
    op_begin(&f, "MatMul", 13); /* the square of a matrix */
    grad_in(&f, "3,3", -1, 1);
    f.in[f.node.n_in++] = f.in[0];
    grad_check(&f);
}

static void test_gradients_of_einsum(void **state)
{
    static const struct row rows[] = {
        { "Einsum", 12, "3,4 4,2", "equation=ij,jk->ik", 0, { 0 } },
        { "Einsum", 12, "2,2,3,4 2,2,2,4", "equation=bhid,bhjd->bhij", 0, { 0 } },
        { "Einsum", 12, "3,3", "equation=ii->i", 0, { 0 } },
        { "Einsum", 12, "3,3", "equation=ii", 0, { 0 } },
        { "Einsum", 12, "2,3,4", "equation=...ij->...ji", 0, { 0 } },
        { "Einsum", 12, "2,1,3,4 3,4,2", "equation=...ij,...jk->...ik", 0, { 0 } },
        { "Einsum", 12, "3 4 2", "equation=i,j,k->ijk", 0, { 0 } },
        { "Einsum", 12, "3 4 3,4", "equation=i,j,ij", 0, { 0 } },
        { "Einsum", 12, "3,2", "equation=ij->", 0, { 0 } },
        { "Einsum", 12, "3,1 3,4", "equation=ij,ij->i", 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };
    struct one_op f;

    (void)state;
    check_rows(rows);
    op_begin(&f, "Einsum", 12); /* one value three times */
    grad_in(&f, "4", -1, 1);
    f.in[1] = f.in[2] = f.in[0];
    f.node.n_in = 3;
    op_attr(&f, "equation", "i,i,j->i");
    grad_check(&f);
}

/* ---- softmax, reductions, scans --------------------------------------------------- */

static void test_gradients_of_softmax(void **state)
{
    static const struct row rows[] = {
        { "Softmax", 13, "3,5", NULL, 0, { 0 } },
        { "Softmax", 13, "2,37", NULL, 0, { 0 } },
        { "Softmax", 13, "2,4,3", "axis=1", 0, { 0 } },
        { "Softmax", 13, "4,19", "axis=0", 0, { 0 } },
        { "Softmax", 11, "2,2,3", NULL, 0, { 0 } },
        { "LogSoftmax", 13, "3,5", NULL, 0, { 0 } },
        { "LogSoftmax", 13, "2,37", "axis=0", 0, { 0 } },
        { "LogSoftmax", 13, "2,4,3", "axis=-2", 0, { 0 } },
        { "LogSoftmax", 11, "2,2,3", NULL, 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };

    (void)state;
    check_rows(rows);
}

static void test_gradients_of_reductions(void **state)
{
    static const char *const ops[][2] = {
        { "ReduceSum", "" },       { "ReduceMean", "" }, { "ReduceSumSquare", "" },
        { "ReduceL1", "~" },       { "ReduceL2", "" },   { "ReduceLogSum", "+" },
        { "ReduceLogSumExp", "" }, { "ReduceMax", "~" }, { "ReduceMin", "~" },
        { "ReduceProd", "+" },
    };
    static const char *const cases[][2] = {
        { "3,4", "" },           { "3,4", "axes=1" },    { "3,4", "axes=0 keepdims=0" },
        { "2,3,2", "axes=0,2" }, { "2,3,2", "axes=-2" }, { "2,2,2,3", "axes=1,3 keepdims=0" },
        { "5", "axes=0" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
        for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
            bool input = !strcmp(ops[i][0], "ReduceSum");
            struct row rows[2] = { { ops[i][0], 11, NULL, cases[k][1], 0, { 0 } } };
            char in[32];

            snprintf(in, sizeof(in), "%s%s", ops[i][1], cases[k][0]);
            rows[0].in = in;
            check_rows(rows);
            if (!input)
                continue;
            rows[0] = (struct row){ ops[i][0], 13, "2,3,2 #2,0", "keepdims=0", 0, { 0 } };
            check_rows(rows);
            rows[0] = (struct row){ ops[i][0], 13, "2,3", "noop_with_empty_axes=1", 0, { 0 } };
            check_rows(rows);
        }
}

/* Expects this gradient for an output gradient of 1; values are computed by hand. */
static void expect_gradient(const char *type, int64_t count, const double *x, const double *want)
{
    struct pare_ctx c;
    struct one_op f;
    char shape[16];

    op_begin(&f, type, 11);
    snprintf(shape, sizeof(shape), "%d", (int)count);
    op_in(&f, PARE_F32, shape, x);
    assert_int_equal(op_run(&f), 0);
    for (int i = 0; i < 2; i++) {
        struct pare_value *v = i ? f.out[0] : f.in[0];

        assert_int_equal(pare_tensor_new(f.arena, &v->grad, PARE_F32, v->t.rank, v->t.dim, &f.err),
                         0);
    }
    pare_f32_mut(&f.out[0]->grad)[0] = 1;
    c = (struct pare_ctx){ .scratch = f.scratch, .results = f.arena, .threads = 1 };
    assert_int_equal(f.node.op->backward(&f.node, &c, &f.err), 0);
    for (int64_t i = 0; i < count; i++)
        assert_float_equal(pare_f32(&f.in[0]->grad)[i], want[i], 1e-6);
    op_end(&f);
}

static void test_gradients_of_reductions_at_ties_and_zeros(void **state)
{
    (void)state;
    expect_gradient("ReduceMax", 4, LIST(1, 3, 3, -2), LIST(0, 0.5, 0.5, 0));
    expect_gradient("ReduceMin", 4, LIST(1, 1, 1, 1), LIST(0.25, 0.25, 0.25, 0.25));
    expect_gradient("ReduceProd", 3, LIST(2, 0, 3), LIST(0, 6, 0));
    expect_gradient("ReduceProd", 3, LIST(0, 0, 3), LIST(0, 0, 0));
    expect_gradient("ReduceL2", 3, LIST(0, 0, 0), LIST(0, 0, 0));
    expect_gradient("ReduceL2", 2, LIST(3, 4), LIST(0.6, 0.8));
    expect_gradient("ReduceL1", 3, LIST(-3, 0, 4), LIST(-1, 0, 1));
    expect_gradient("ReduceLogSumExp", 2, LIST(-INFINITY, -INFINITY), LIST(0, 0));
    expect_gradient("ReduceLogSumExp", 2, LIST(1000, 1000), LIST(0.5, 0.5));
}

static void test_gradients_of_cumsum_and_topk(void **state)
{
    static const struct row rows[] = {
        { "CumSum", 11, "2,4,3 #1", NULL, 0, { 0 } },
        { "CumSum", 11, "5 #0", "exclusive=1", 0, { 0 } },
        { "CumSum", 11, "2,4 #-1", "reverse=1", 0, { 0 } },
        { "CumSum", 11, "3,4 #0", "reverse=1 exclusive=1", 0, { 0 } },
        { "TopK", 11, "~3,5 #2", NULL, 2, { 0 } },
        { "TopK", 11, "~3,5 #2", "largest=0 axis=0", 2, { 0 } },
        { "TopK", 11, "~2,5,2 #3", "axis=1", 1, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };

    (void)state;
    check_rows(rows);
}

/* ---- losses ------------------------------------------------------------------------- */

static void check_loss(const char *type, const char *reduction, bool weighted, int outs)
{
    bool pixels = !strcmp(reduction, "sum") || outs > 1;
    struct one_op f;

    op_begin(&f, type, 13);
    grad_in(&f, pixels ? "2,4,3" : "6,4", -1, 1);
    op_in(&f, PARE_I64, pixels ? "2,3" : "6", LIST(0, 3, 2, 2, -1, 0));
    if (weighted)
        grad_in(&f, "4", 0.5, 1.5);
    op_attr(&f, "ignore_index", "-1");
    op_attr(&f, "reduction", reduction);
    f.node.n_out = outs;
    grad_check(&f);
}

static void test_gradients_of_losses(void **state)
{
    static const char *const reductions[] = { "none", "sum", "mean" };

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int weighted = 0; weighted < 2; weighted++) {
            check_loss("NegativeLogLikelihoodLoss", reductions[i], weighted, 1);
            check_loss("SoftmaxCrossEntropyLoss", reductions[i], weighted, 1);
            check_loss("SoftmaxCrossEntropyLoss", reductions[i], weighted, 2);
        }
}

/* Only the log probabilities or only the loss has a gradient; all labels are ignored. */
static void test_gradients_of_losses_with_unused_outputs(void **state)
{
    struct one_op f;

    (void)state;
    for (unsigned skip = 1; skip <= 2; skip++) {
        op_begin(&f, "SoftmaxCrossEntropyLoss", 13);
        grad_in(&f, "3,4", -1, 1);
        op_in(&f, PARE_I32, "3", LIST(1, 0, 3));
        f.node.n_out = 2;
        grad_check_with(&f, &(struct grad_opts){ .skip_out = skip });
    }
    op_begin(&f, "SoftmaxCrossEntropyLoss", 13);
    grad_in(&f, "2,3", -1, 1);
    op_in(&f, PARE_I64, "2", LIST(7, 7));
    op_attr(&f, "ignore_index", "7");
    op_attr(&f, "reduction", "sum");
    grad_check(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_gemm),
        cmocka_unit_test(test_gradients_of_matmul),
        cmocka_unit_test(test_gradients_of_einsum),
        cmocka_unit_test(test_gradients_of_softmax),
        cmocka_unit_test(test_gradients_of_reductions),
        cmocka_unit_test(test_gradients_of_reductions_at_ties_and_zeros),
        cmocka_unit_test(test_gradients_of_cumsum_and_topk),
        cmocka_unit_test(test_gradients_of_losses),
        cmocka_unit_test(test_gradients_of_losses_with_unused_outputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
