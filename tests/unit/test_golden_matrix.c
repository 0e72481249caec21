/* test_golden_matrix.c - perceptron, recurrent layers, attention against PyTorch in float64. */
#include "golden.h"

static void test_mlp(void **state)
{
    struct pare_value *y;
    struct net t;

    (void)state;
    net_open(&t, "golden/mlp.npz");
    y = leaf(&t, "x0");
    y = add_node(&t, "Gemm", IN(y, leaf(&t, "fc1.w"), leaf(&t, "fc1.bias")), ATTRS("transB", "1"));
    y = add_node(&t, "Relu", IN(y), NULL);
    y = add_node(&t, "Gemm", IN(y, leaf(&t, "fc2.w"), leaf(&t, "fc2.bias")), ATTRS("transB", "1"));
    y = add_node(&t, "SoftmaxCrossEntropyLoss",
                 IN(y, constant_input(&t, "labels"), constant_input(&t, "class.w")),
                 ATTRS("ignore_index", "-1"));
    run_net(&t, true, find_array(&t, "", "gy0"));
    expect_close(&t, &y->t, "", "y0");
    expect_grads(&t, "grad.");
    net_close(&t);
}

/* A bidirectional recurrent layer, sequences of different lengths, all outputs used. */
static void check_recurrent(struct net *t, const char *type, int outs, const char **attrs)
{
    struct pare_value *in[8] = { 0 }, *y;
    struct one_op *f = &t->node[t->n];
    int n = 0;

    in[n++] = leaf(t, "x0");
    in[n++] = leaf(t, "W");
    in[n++] = leaf(t, "R");
    in[n++] = leaf(t, "B");
    in[n++] = constant_input(t, "lens");
    in[n++] = leaf(t, "h0");
    if (outs > 2)
        in[n++] = leaf(t, "c0");
    t->outs = outs;
    y = add_node(t, type, in, attrs);
    f->out[1]->grad = *find_array(t, "", "gh0");
    if (outs > 2)
        f->out[2]->grad = *find_array(t, "", "gc0");
    run_net(t, true, find_array(t, "", "gy0"));
    expect_close(t, &y->t, "", "y0");
    expect_grads(t, "grad.");
    net_close(t);
}

static void test_lstm(void **state)
{
    struct net t;

    (void)state;
    net_open(&t, "golden/lstm.npz");
    check_recurrent(&t, "LSTM", 3, ATTRS("direction", "bidirectional", "hidden_size", "3"));
}

static void test_gru(void **state)
{
    struct net t;

    (void)state;
    net_open(&t, "golden/gru.npz");
    check_recurrent(&t, "GRU", 2, ATTRS("direction", "bidirectional", "linear_before_reset", "1"));
}

/* x times a matrix, split into attention heads that are transposed by `perm`. */
static struct pare_value *project_heads(struct net *t, struct pare_value *x, const char *weight,
                                        const char *perm)
{
    struct pare_value *y = add_node(t, "MatMul", IN(x, leaf(t, weight)), NULL);

    y = add_node(t, "Reshape", IN(y, constant_input(t, "split")), NULL);
    return add_node(t, "Transpose", IN(y), ATTRS("perm", perm));
}

static void test_attention(void **state)
{
    struct pare_value *x, *q, *k, *v, *y;
    struct net t;

    (void)state;
    net_open(&t, "golden/attention.npz");
    x = leaf(&t, "x0");
    q = project_heads(&t, x, "q.w", "0,2,1,3");
    k = project_heads(&t, x, "k.w", "0,2,3,1");
    v = project_heads(&t, x, "v.w", "0,2,1,3");
    y = add_node(&t, "MatMul", IN(q, k), NULL);
    y = add_node(&t, "Mul", IN(y, constant_input(&t, "scale")), NULL);
    y = add_node(&t, "Softmax", IN(y), NULL);
    y = add_node(&t, "MatMul", IN(y, v), NULL);
    y = add_node(&t, "Transpose", IN(y), ATTRS("perm", "0,2,1,3"));
    y = add_node(&t, "Reshape", IN(y, constant_input(&t, "join")), NULL);
    y = add_node(&t, "MatMul", IN(y, leaf(&t, "o.w")), NULL);
    run_net(&t, true, find_array(&t, "", "gy0"));
    expect_close(&t, &y->t, "", "y0");
    expect_grads(&t, "grad.");
    net_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_lstm),
        cmocka_unit_test(test_gru),
        cmocka_unit_test(test_attention),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
