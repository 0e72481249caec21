/* test_golden_nn.c - small convolutional networks, forward and backward, against PyTorch in
 * float64. */
#include "golden.h"

static struct pare_value *make_conv_bn(struct net *t)
{
    struct pare_value *y = leaf(t, "x0");

    y = add_node(t, "Conv", IN(y, leaf(t, "conv.w")), ATTRS("pads", "1,1,1,1"));
    y = add_node(t, "BatchNormalization",
                 IN(y, leaf(t, "bn.scale"), leaf(t, "bn.bias"), constant_input(t, "bn.mean"),
                    constant_input(t, "bn.var")),
                 NULL);
    y = add_node(t, "Relu", IN(y), NULL);
    y = add_node(t, "MaxPool", IN(y), ATTRS("kernel_shape", "2,2", "strides", "2,2"));
    y = add_node(t, "Flatten", IN(y), NULL);
    return add_node(t, "Gemm", IN(y, leaf(t, "fc.w"), leaf(t, "fc.bias")), ATTRS("transB", "1"));
}

/* Two batches in training, then the first one in inference with the running moments. */
static void test_conv_and_batch_norm(void **state)
{
    struct pare_value *y, *x;
    struct net t;

    (void)state;
    net_open(&t, "golden/conv_bn.npz");
    y = make_conv_bn(&t);
    x = &t.leaf[0];
    run_net(&t, true, find_array(&t, "", "gy0"));
    expect_close(&t, &y->t, "", "y0");
    expect_close(&t, &x->grad, "grad.", "x0");

    x->name = "x1";
    x->t = *find_array(&t, "", "x1");
    zero_grad(x);
    run_net(&t, true, find_array(&t, "", "gy1"));
    expect_close(&t, &y->t, "", "y1");
    expect_grads(&t, "grad.");
    for (int i = 0; i < t.n_leaves; i++)
        if (strstr(t.leaf[i].name, "mean") || strstr(t.leaf[i].name, "var"))
            expect_close(&t, &t.leaf[i].t, "after.", t.leaf[i].name);

    x->name = "x0";
    x->t = *find_array(&t, "", "x0");
    for (int i = 0; i < t.n_leaves; i++)
        if (t.leaf[i].grad.data)
            zero_grad(&t.leaf[i]);
    run_net(&t, false, find_array(&t, "", "gy0"));
    expect_close(&t, &y->t, "eval.", "y0");
    expect_grads(&t, "eval.grad.");
    net_close(&t);
}

static void test_other_normalizations(void **state)
{
    struct pare_value *y;
    struct net t;

    (void)state;
    net_open(&t, "golden/norms.npz");
    y = leaf(&t, "x0");
    y = add_node(&t, "Conv", IN(y, leaf(&t, "dw.w"), leaf(&t, "dw.bias")),
                 ATTRS("group", "4", "strides", "2,2", "pads", "1,1,1,1"));
    y = add_node(&t, "GroupNormalization", IN(y, leaf(&t, "gn.scale"), leaf(&t, "gn.bias")),
                 ATTRS("num_groups", "2"));
    y = add_node(&t, "Tanh", IN(y), NULL);
    y = add_node(&t, "ConvTranspose", IN(y, leaf(&t, "up.w")),
                 ATTRS("group", "2", "strides", "2,2"));
    y = add_node(&t, "InstanceNormalization", IN(y, leaf(&t, "in.scale"), leaf(&t, "in.bias")),
                 NULL);
    y = add_node(&t, "AveragePool", IN(y),
                 ATTRS("kernel_shape", "3,3", "strides", "2,2", "pads", "1,1,1,1"));
    y = add_node(&t, "Flatten", IN(y), NULL);
    y = add_node(&t, "LayerNormalization", IN(y, leaf(&t, "ln.scale"), leaf(&t, "ln.bias")), NULL);
    run_net(&t, true, find_array(&t, "", "gy0"));
    expect_close(&t, &y->t, "", "y0");
    expect_grads(&t, "grad.");
    net_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_conv_and_batch_norm),
                                        cmocka_unit_test(test_other_normalizations) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
