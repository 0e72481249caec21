/* test_fused_ops.c - fused operators of ONNX Runtime, DeformConv, AffineGrid: values, gradients. */
#include "grad_rows.h"

static void test_gradients(void **state)
{
    static const struct row rows[] = {
        { "ms.FusedConv", 1, "2,3,5,5 4,3,3,3 4", "activation=Tanh pads=1,1,1,1", 0, { 0 } },
        { "ms.FusedConv", 1, "1,4,6 4,2,3 -", "activation=Sigmoid group=2", 0, { 0 } },
        { "ms.FusedConv", 1, "2,2,4,4 3,2,2,2 3 2,3,3,3", "activation=Softplus", 0, { 0 } },
        { "ms.FusedConv", 1, "2,2,4,4 3,2,2,2 - 2,3,3,3", NULL, 0, { 0 } },
        { "ms.FusedGemm", 1, "4,3 3,2 2", "activation=Tanh alpha=0.5 beta=2", 0, { 0 } },
        { "ms.FusedGemm", 1, "3,4 2,3", "activation=Sigmoid transA=1 transB=1", 0, { 0 } },
        { "ms.FusedMatMul", 1, "2,3,4 2,4,2", "alpha=0.5", 0, { 0 } },
        { "ms.FusedMatMul", 1, "2,4,3 5,4", "transA=1 transB=1 alpha=-2", 0, { 0 } },
        { "ms.FusedMatMul", 1, "4,2,3 3,5", "transBatchA=1", 0, { 0 } },
        { "ms.FusedMatMul", 1, "4,2,3 6,2,3", "transBatchA=1 transBatchB=1 transB=1", 0, { 0 } },
        { "ms.FusedMatMul", 1, "3 3,2", "transA=1", 0, { 0 } },
        { "ms.BiasGelu", 1, "3,5 5", NULL, 0, { 0 } },
        { "ms.BiasAdd", 1, "2,3,4 4 2,3,4", NULL, 0, { 0 } },
        { "ms.BiasSplitGelu", 1, "2,3,8 8", NULL, 0, { 0 } },
        { "SimplifiedLayerNormalization", 17, "3,5 5", NULL, 2, { 0 } },
        { "SimplifiedLayerNormalization", 17, "2,3,4 3,4", "axis=1 epsilon=0.01", 1, { 0 } },
        { "ms.SkipLayerNormalization", 1, "2,3,4 2,3,4 4 4 4", "epsilon=0.01", 4, { 0 } },
        { "ms.SkipLayerNormalization", 1, "2,3,4 3,4 4", "epsilon=0.01", 1, { 0 } },
        { "ms.SkipLayerNormalization", 1, "2,3,4 1,3,4 4 4", "epsilon=0.01", 1, { 0 } },
        { "AffineGrid", 20, "2,2,3 #2,3,3,4", NULL, 0, { 0 } },
        { "AffineGrid", 20, "2,3,4 #2,3,2,3,1", "align_corners=1", 0, { 0 } },
        { NULL, 0, NULL, NULL, 0, { 0 } },
    };

    (void)state;
    check_rows(rows);
}

/* SkipSimplifiedLayerNormalization has no output 'mean'. */
static void test_skip_simplified_layer_norm(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "ms.SkipSimplifiedLayerNormalization", 1);
    grad_in(&f, "2,3,4", -1, 1);
    grad_in(&f, "2,3,4", -1, 1);
    grad_in(&f, "4", 0.5, 1.5);
    grad_in(&f, "4", -1, 1);
    op_attr(&f, "epsilon", "0.01");
    grad_check(&f);
    op_begin(&f, "ms.SkipSimplifiedLayerNormalization", 1);
    grad_in(&f, "2,4", -1, 1);
    grad_in(&f, "2,4", -1, 1);
    grad_in(&f, "4", 0.5, 1.5);
    f.node.n_out = 2;
    op_expect_error(&f, "SkipSimplifiedLayerNormalization has no output 'mean'");
}

/* Offsets between 0.25 and 0.75, away from the kinks at integer positions. */
static void add_offsets(struct one_op *f, const char *offset)
{
    grad_in(f, offset, 0.25, 0.75);
}

static void test_gradients_of_deform_conv(void **state)
{
    static const struct {
        const char *x, *w, *offset, *b, *mask, *group, *offset_group;
    } c[] = {
        { "2,3,5,4", "4,3,2,2", "2,8,4,3", "4", "2,4,4,3", "1", "1" },
        { "1,4,4,4", "2,2,2,2", "1,16,3,3", NULL, NULL, "2", "2" },
        { "1,4,4", "2,4,2", "1,4,3", "2", "1,4,3", "1", "2" },
        { "1,1,3,3,3", "1,1,2,2,2", "1,24,2,2,2", NULL, NULL, "1", "1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
        struct one_op f;

        op_begin(&f, "DeformConv", 19);
        op_attr(&f, "group", c[i].group);
        op_attr(&f, "offset_group", c[i].offset_group);
        grad_in(&f, c[i].x, -1, 1);
        grad_in(&f, c[i].w, -1, 1);
        add_offsets(&f, c[i].offset);
        if (c[i].b)
            grad_in(&f, c[i].b, -1, 1);
        else
            op_in_none(&f);
        if (c[i].mask)
            grad_in(&f, c[i].mask, 0, 1);
        grad_check(&f);
    }
}

/* Fused operators with an activation, against values computed by hand. */
static void test_fused_activations(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "ms.FusedConv", 1);
    op_in(&f, PARE_F32, "1,1,3", LIST(1, -2, 3));
    op_in(&f, PARE_F32, "1,1,1", LIST(2));
    op_in(&f, PARE_F32, "1", LIST(1));
    op_in(&f, PARE_F32, "1,1,3", LIST(1, 1, -9));
    op_attr(&f, "activation", "Clip");
    op_attr(&f, "activation_params", "-1.5,3.5");
    op_expect(&f, 0, PARE_F32, "(1, 1, 3)", LIST(3.5, -1.5, -1.5));
    op_end(&f);
    op_begin(&f, "ms.FusedGemm", 1);
    op_in(&f, PARE_F32, "1,2", LIST(1, -2));
    op_in(&f, PARE_F32, "2,2", LIST(1, 0, 0, 1));
    op_attr(&f, "activation", "LeakyRelu");
    op_attr(&f, "activation_alpha", "0.5");
    op_expect(&f, 0, PARE_F32, "(1, 2)", LIST(1, -1));
    op_end(&f);
    op_begin(&f, "ms.FusedGemm", 1);
    op_in(&f, PARE_F32, "1,1", LIST(1));
    op_in(&f, PARE_F32, "1,1", LIST(1));
    op_attr(&f, "activation", "Reloo");
    op_expect_error(&f, "activation 'Reloo' is not known, expected one such as Relu or Clip");
}

/* EmbedLayerNormalization: words + positions + segments, normalized. */
static void test_embed_layer_norm(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "ms.EmbedLayerNormalization", 1);
    f.node.n_out = 3;
    op_in(&f, PARE_I32, "1,2", LIST(1, 0));
    op_in(&f, PARE_I32, "1,2", LIST(0, 1));
    op_in(&f, PARE_F32, "2,2", LIST(1, 2, 3, 4));
    op_in(&f, PARE_F32, "3,2", LIST(10, 20, 30, 40, 50, 60));
    op_in(&f, PARE_F32, "2,2", LIST(100, 200, 300, 400));
    op_in(&f, PARE_F32, "2", LIST(1, 2));
    op_in(&f, PARE_F32, "2", LIST(0, 1));
    op_in(&f, PARE_I32, "1,2", LIST(1, 0));
    op_expect(&f, 0, PARE_F32, "(1, 2, 2)", LIST(-1, 3, -1, 3));
    op_expect(&f, 1, PARE_I32, "(1)", LIST(1));
    op_expect(&f, 2, PARE_F32, "(1, 2, 2)", LIST(113, 224, 331, 442));
    op_end(&f);
    op_begin(&f, "ms.EmbedLayerNormalization", 1);
    op_in(&f, PARE_I32, "1,1", LIST(7));
    op_in_none(&f);
    op_in(&f, PARE_F32, "2,2", LIST(1, 2, 3, 4));
    op_in(&f, PARE_F32, "1,2", LIST(1, 2));
    op_in_none(&f);
    op_in(&f, PARE_F32, "2", LIST(1, 2));
    op_in(&f, PARE_F32, "2", LIST(0, 1));
    op_expect_error(&f, "id 7 is outside a table of 2 rows");
}

static void test_gradients_of_embed_layer_norm(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "ms.EmbedLayerNormalization", 1);
    op_attr(&f, "epsilon", "0.01");
    f.node.n_out = 3;
    op_in(&f, PARE_I32, "2,3", LIST(1, 0, 1, 2, 2, 0));
    op_in(&f, PARE_I32, "2,3", LIST(0, 1, 0, 0, 0, 1));
    grad_in(&f, "3,4", -1, 1);
    grad_in(&f, "3,4", -1, 1);
    grad_in(&f, "2,4", -1, 1);
    grad_in(&f, "4", 0.5, 1.5);
    grad_in(&f, "4", -1, 1);
    grad_check(&f);
}

/* Samples follow the probabilities, also if one is far larger than the others. */
static void test_multinomial_frequencies(void **state)
{
    int count[3] = { 0, 0, 0 };
    struct one_op f;

    (void)state;
    op_begin(&f, "Multinomial", 7);
    op_in(&f, PARE_F32, "2,3", LIST(0, log(3), -1000, 1000, 1000, -1000));
    op_attr(&f, "sample_size", "4000");
    assert_int_equal(op_run(&f), 0);
    for (int i = 0; i < 4000; i++)
        count[((const int32_t *)f.out[0]->t.data)[i]]++;
    assert_in_range(count[0], 900, 1100);
    assert_in_range(count[1], 2900, 3100);
    assert_int_equal(count[2], 0);
    for (int i = 4000; i < 8000; i++)
        count[((const int32_t *)f.out[0]->t.data)[i]]++;
    assert_int_equal(count[2], 0);
    op_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_skip_simplified_layer_norm),
        cmocka_unit_test(test_gradients_of_deform_conv),
        cmocka_unit_test(test_fused_activations),
        cmocka_unit_test(test_embed_layer_norm),
        cmocka_unit_test(test_gradients_of_embed_layer_norm),
        cmocka_unit_test(test_multinomial_frequencies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
