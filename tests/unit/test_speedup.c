/* test_speedup.c - speedup of convolutional networks: fewer channels, same results. */
#include "speedup_rig.h"

/* Three padded blocks: a carrier is kept in addition to the unmasked half. */
static void test_padded_blocks(void **state)
{
    struct net n = net_new(1);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, HALF, 3, 16);
    x = net_block(&n, x, HALF, 16, 12);
    x = net_block(&n, x, ALL, 12, 8);
    EXPECT(&n, x, 9, 7, 8);
}

/* Without padding, all constants are folded into biases. */
static void test_convolutions_without_padding(void **state)
{
    struct net n = net_new(2);
    const char *x = net_image(&n);

    (void)state;
    n.unpadded = true;
    x = net_block(&n, x, HALF, 3, 16);
    x = net_block(&n, x, HALF, 16, 12);
    x = net_conv(&n, x, ALL, 12, 8, 1);
    EXPECT(&n, x, 8, 6, 8);
}

/* A convolution without a bias gets one. */
static void test_convolution_gets_a_bias(void **state)
{
    struct net n = net_new(3);
    const char *x = net_image(&n), *w;

    (void)state;
    x = net_relu(&n, net_bn(&n, net_conv(&n, x, HALF, 3, 16, 3), 16));
    w = WEIGHT(&n, ALL, 0, 5, 16, 1, 1);
    x = build_node(&n.b, "Conv", NAMES(x, w), NOTHING);
    EXPECT(&n, x, 8, 5);
}

static void test_residual(void **state)
{
    struct net n = net_new(4);
    const char *x = net_image(&n), *y;

    (void)state;
    n.unpadded = true;
    x = net_block(&n, x, HALF, 3, 16);
    n.unpadded = false;
    y = net_block(&n, x, HALF, 16, 10);
    y = net_bn(&n, net_conv(&n, y, HALF, 10, 16, 3), 16);
    x = net_relu(&n, net_add(&n, x, y));
    x = net_conv(&n, x, ALL, 16, 4, 1);
    EXPECT(&n, x, 9, 6, 9, 4);
}

/* The two summands have different masks: no channel can be removed. */
static void test_residual_with_different_masks(void **state)
{
    struct net n = net_new(5);
    const char *x = net_image(&n), *a, *b;

    (void)state;
    a = net_conv(&n, x, FRONT, 3, 16, 3);
    b = net_conv(&n, x, BACK, 3, 16, 3);
    x = net_conv(&n, net_add(&n, a, b), ALL, 16, 4, 1);
    EXPECT(&n, x, 16, 16, 4);
}

static void test_concat(void **state)
{
    struct net n = net_new(6);
    const char *x = net_image(&n), *a, *b;

    (void)state;
    a = net_block(&n, x, HALF, 3, 8);
    b = net_block(&n, x, FRONT, 3, 6);
    x = build_node(&n.b, "Concat", NAMES(a, b), at_int("axis", 1));
    x = net_conv(&n, x, ALL, 14, 4, 1);
    EXPECT(&n, x, 4, 3, 4);
}

static void test_concat_with_itself(void **state)
{
    struct net n = net_new(7);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, HALF, 3, 8);
    x = build_node(&n.b, "Concat", NAMES(x, x), at_int("axis", 1));
    x = net_conv(&n, x, ALL, 16, 4, 1);
    EXPECT(&n, x, 4, 4);
}

/* A concatenation of two branches, added to one convolution. */
static void test_concat_into_residual(void **state)
{
    struct net n = net_new(8);
    const char *x = net_image(&n), *a, *b, *c;

    (void)state;
    a = net_block(&n, x, HALF, 3, 8);
    b = net_block(&n, x, HALF, 3, 8);
    c = net_block(&n, x, HALF, 3, 16);
    x = build_node(&n.b, "Concat", NAMES(a, b), at_int("axis", 1));
    x = net_conv(&n, net_add(&n, x, c), ALL, 16, 4, 1);
    EXPECT(&n, x, 4, 4, 8, 4);
}

/* Inputs and outputs of a depthwise convolution are the same channels. */
static void test_depthwise(void **state)
{
    struct net n = net_new(9);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, HALF, 3, 16);
    x = net_relu(&n, net_bn(&n, net_grouped_conv(&n, x, HALF, 16, 1, 3), 16));
    x = net_conv(&n, x, ALL, 16, 4, 1);
    EXPECT(&n, x, 8, 8, 4);
}

/* Different masks before and after it: channels are removed where both agree or the input is 0. */
static void test_depthwise_with_different_masks(void **state)
{
    struct net n = net_new(10);
    const char *x = net_image(&n);

    (void)state;
    n.zero_bias = true;
    x = net_relu(&n, net_conv(&n, x, HALF, 3, 16, 3));
    x = net_relu(&n, net_grouped_conv(&n, x, FRONT, 16, 1, 3));
    x = net_conv(&n, x, ALL, 16, 4, 1);
    EXPECT(&n, x, 4, 4, 4);
}

/* Whole convolution groups are removed, or the same channel of every group. */
static void test_whole_groups(void **state)
{
    struct net n = net_new(11);
    const char *x = net_image(&n);

    (void)state;
    n.unpadded = true;
    x = net_block(&n, x, FRONT, 3, 16);
    x = net_relu(&n, net_grouped_conv(&n, x, FRONT, 16, 4, 3));
    x = net_conv(&n, x, ALL, 16, 4, 1);
    EXPECT(&n, x, 8, 8, 4);
}

/* Each group keeps two channels, but different ones: the first two, the last two. */
static void test_different_channels_of_groups(void **state)
{
    for (int back = 0; back < 2; back++) {
        struct net n = net_new(31);
        const char *x = net_image(&n), *w;
        struct pare_tensor t = net_random(&n, 0, 0.6f, INTS(8, 3, 3, 3));

        (void)state;
        n.unpadded = n.zero_bias = true;
        for (int64_t i = 0; i < pare_numel(&t); i++)
            if (i / 27 / 2 == 1 || i / 27 / 2 == 2)
                pare_f32_mut(&t)[i] = 0;
        w = build_floats(&n.b, 4, t.dim, pare_f32(&t));
        x = net_relu(&n, build_node(&n.b, "Conv", NAMES(x, w), NOTHING));
        if (back)
            x = build_node(&n.b, "ConvTranspose", NAMES(x, WEIGHT(&n, ALL, 0, 8, 3, 2, 2)),
                           at_int("group", 2));
        else
            x = build_node(&n.b, "Conv", NAMES(x, WEIGHT(&n, ALL, 0, 6, 4, 3, 3)),
                           at_int("group", 2));
        EXPECT(&n, net_conv(&n, x, ALL, 6, 4, 1), 4, 6, 4);
    }
}

/* Three of one group and one of the other are needed: the other keeps two more. */
static void test_unbalanced_groups(void **state)
{
    struct net n = net_new(32);
    const char *x = net_image(&n), *w;
    struct pare_tensor t = net_random(&n, 0, 0.6f, INTS(8, 3, 3, 3));

    (void)state;
    n.unpadded = n.zero_bias = true;
    for (int64_t i = 0; i < pare_numel(&t); i++)
        if (i / 27 == 1 || i / 27 >= 5)
            pare_f32_mut(&t)[i] = 0;
    w = build_floats(&n.b, 4, t.dim, pare_f32(&t));
    x = net_relu(&n, build_node(&n.b, "Conv", NAMES(x, w), NOTHING));
    x = build_node(&n.b, "Conv", NAMES(x, WEIGHT(&n, HALF, 0, 6, 4, 3, 3)), at_int("group", 2));
    EXPECT(&n, net_conv(&n, x, ALL, 6, 4, 1), 6, 4, 4);
}

static void test_conv_transpose(void **state)
{
    struct net n = net_new(12);
    const char *x = net_image(&n), *w, *b;

    (void)state;
    x = net_block(&n, x, HALF, 3, 12);
    w = WEIGHT(&n, HALF, 1, 12, 10, 2, 2);
    b = net_bias(&n, HALF, 10);
    x = build_node(&n.b, "ConvTranspose", NAMES(x, w, b), at_ints("strides", INTS(2, 2)));
    x = net_conv(&n, net_relu(&n, x), ALL, 10, 4, 1);
    EXPECT(&n, x, 7, 5, 4);
}

/* x * sigmoid(f(mean of x)): the gate has the channels of x. */
static void test_squeeze_excite(void **state)
{
    struct net n = net_new(13);
    const char *x = net_image(&n), *g;

    (void)state;
    n.zero_bias = true;
    x = net_relu(&n, net_conv(&n, x, HALF, 3, 16, 3));
    g = build_node(&n.b, "GlobalAveragePool", NAMES(x), NOTHING);
    g = net_relu(&n, net_conv(&n, g, HALF, 16, 6, 1));
    g = build_node(&n.b, "HardSigmoid", NAMES(net_conv(&n, g, ALL, 6, 16, 1)), NOTHING);
    x = build_node(&n.b, "Mul", NAMES(x, g), NOTHING);
    x = net_conv(&n, x, ALL, 16, 4, 3);
    EXPECT(&n, x, 8, 3, 8, 4);
}

static void test_pools(void **state)
{
    struct net n = net_new(14);
    const char *x = net_image(&n);
    struct bin window = CAT(at_ints("kernel_shape", INTS(3, 3)), at_ints("pads", INTS(1, 1, 1, 1)));

    (void)state;
    x = net_block(&n, x, HALF, 3, 16);
    x = build_node(&n.b, "MaxPool", NAMES(x), window);
    x = build_node(&n.b, "AveragePool", NAMES(x), window);
    x = net_conv(&n, x, ALL, 16, 4, 1);
    EXPECT(&n, x, 8, 4);
}

/* With count_include_pad, constant channels differ at the borders: only zero channels are
 * removed. */
static void test_pool_that_counts_padding(void **state)
{
    struct net n = net_new(15);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, HALF, 3, 16);
    x = build_node(&n.b, "AveragePool", NAMES(x),
                   CAT(at_ints("kernel_shape", INTS(3, 3)), at_ints("pads", INTS(1, 1, 1, 1)),
                       at_int("count_include_pad", 1)));
    x = net_conv(&n, x, ALL, 16, 4, 1);
    EXPECT(&n, x, 13, 4);
}

static void test_constant_pad(void **state)
{
    struct net n = net_new(16);
    const char *x = net_image(&n), *pads, *v;

    (void)state;
    x = net_block(&n, x, HALF, 3, 16);
    pads = build_ints(&n.b, INTS(0, 0, 1, 2, 0, 0, 2, 1));
    v = build_scalar(&n.b, 0.7f);
    x = build_node(&n.b, "Pad", NAMES(x, pads, v), NOTHING);
    x = net_conv(&n, x, ALL, 16, 4, 3);
    EXPECT(&n, x, 16, 4);
}

/* Padding with zeros keeps channels of zeros. */
static void test_zero_pad(void **state)
{
    struct net n = net_new(33);
    const char *x = net_image(&n);

    (void)state;
    n.zero_bias = true;
    x = net_relu(&n, net_conv(&n, x, HALF, 3, 16, 3));
    x = build_node(&n.b, "Pad", NAMES(x, build_ints(&n.b, INTS(0, 0, 1, 2, 0, 0, 2, 1))), NOTHING);
    EXPECT(&n, net_conv(&n, x, ALL, 16, 4, 3), 8, 4);
}

/* As PyTorch exports an average pool: padding that adds nothing keeps every constant channel. */
static void test_pad_of_nothing(void **state)
{
    struct net n = net_new(35);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, HALF, 3, 16);
    x = build_node(&n.b, "Pad", NAMES(x, build_ints(&n.b, INTS(0, 0, 0, 0, 0, 0, 0, 0))), NOTHING);
    EXPECT(&n, net_conv(&n, x, ALL, 16, 4, 1), 8, 4);
}

/* Sums and norms over positions of a channel of zeros are 0. */
static void test_sums_of_zeros(void **state)
{
    static const char *const type[] = { "ReduceSum", "ReduceL2", "CumSum", "LpPool",
                                        "GlobalLpPool" };

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct net n = net_new(36);
        const char *x = net_image(&n), *axes = NULL;
        struct bin keep = i < 2 ? at_int("keepdims", 1) : NOTHING;

        n.zero_bias = true;
        x = net_relu(&n, net_conv(&n, x, HALF, 3, 16, 3));
        if (i == 0 || i == 2)
            axes = build_ints(&n.b, INTS(2));
        if (i == 1)
            keep = CAT(keep, at_ints("axes", INTS(2)));
        if (i == 3)
            keep = at_ints("kernel_shape", INTS(2, 2));
        x = axes ? build_node(&n.b, type[i], NAMES(x, axes), keep)
                 : build_node(&n.b, type[i], NAMES(x), keep);
        EXPECT(&n, net_conv(&n, x, ALL, 16, 4, 1), 8, 4);
    }
}

static void test_value_added_to_itself(void **state)
{
    struct net n = net_new(34);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, HALF, 3, 8);
    x = build_node(&n.b, "Mul", NAMES(net_add(&n, x, x), x), NOTHING);
    EXPECT(&n, net_conv(&n, x, ALL, 8, 4, 1), 4, 4);
}

static void test_sum_over_channels(void **state)
{
    struct net n = net_new(17);
    const char *x = net_image(&n), *axes;

    (void)state;
    n.zero_bias = true;
    x = net_relu(&n, net_conv(&n, x, HALF, 3, 16, 3));
    axes = build_ints(&n.b, INTS(1));
    x = build_node(&n.b, "ReduceSum", NAMES(x, axes), NOTHING);
    EXPECT(&n, x, 8);
}

static void test_mean_over_channels(void **state)
{
    struct net n = net_new(18);
    const char *x = net_image(&n);

    (void)state;
    n.zero_bias = true;
    x = net_relu(&n, net_conv(&n, x, HALF, 3, 16, 3));
    x = build_node(&n.b, "ReduceMean", NAMES(x), at_ints("axes", INTS(1)));
    EXPECT(&n, x, 16);
}

/* All channels of a layer are masked: one is kept, and the model still runs. */
static void test_layer_without_channels(void **state)
{
    struct net n = net_new(19);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, ALL, 3, 8);
    x = net_block(&n, x, NONE, 8, 8);
    x = net_block(&n, x, HALF, 8, 8);
    x = net_conv(&n, x, ALL, 8, 4, 1);
    EXPECT(&n, x, 1, 1, 4, 4);
}

static void test_u_net(void **state)
{
    struct net n = net_new(20);
    const char *x = build_input(&n.b, PARE_F32, INTS(1, 3, 8, 8)), *skip, *scales, *roi;

    (void)state;
    x = skip = net_block(&n, x, HALF, 3, 8);
    x = build_node(&n.b, "MaxPool", NAMES(x),
                   CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2))));
    x = net_block(&n, x, HALF, 8, 16);
    roi = build_floats(&n.b, 1, (int64_t[]){ 0 }, NULL);
    scales = build_floats(&n.b, 1, (int64_t[]){ 4 }, (float[]){ 1, 1, 2, 2 });
    x = build_node(&n.b, "Resize", NAMES(x, roi, scales), at_text("mode", "nearest"));
    x = build_node(&n.b, "Concat", NAMES(x, skip), at_int("axis", 1));
    x = net_block(&n, x, HALF, 24, 8);
    x = net_conv(&n, x, ALL, 8, 2, 1);
    EXPECT(&n, x, 5, 8, 4, 2);
}

/* Outputs for boxes and classes at two scales. */
static void test_detection_outputs(void **state)
{
    struct net n = net_new(21);
    const char *x = net_image(&n), *y;

    (void)state;
    x = net_block(&n, x, HALF, 3, 16);
    y = net_block(&n, x, HALF, 16, 16);
    build_output(&n.b, net_conv(&n, x, ALL, 16, 6, 3));
    build_output(&n.b, net_conv(&n, y, ALL, 16, 6, 3));
    build_output(&n.b, net_conv(&n, y, ALL, 16, 4, 1));
    EXPECT(&n, net_conv(&n, x, ALL, 16, 4, 1), 9, 9, 6, 6, 4, 4);
}

/* Channels that no layer reads, although their filters are not 0. */
static void test_unread_channels(void **state)
{
    struct net n = net_new(22);
    const char *x = net_image(&n), *w;

    (void)state;
    x = net_block(&n, x, ALL, 3, 16);
    w = WEIGHT(&n, HALF, 1, 5, 16, 3, 3);
    x = build_node(&n.b, "Conv", NAMES(x, w), NOTHING);
    EXPECT(&n, x, 8, 5);
}

/* One weight of two layers. */
static void test_shared_weight(void **state)
{
    struct net n = net_new(23);
    const char *x = net_image(&n), *w, *a, *b;

    (void)state;
    x = net_block(&n, x, HALF, 3, 8);
    w = WEIGHT(&n, HALF, 0, 8, 8, 3, 3);
    a = build_node(&n.b, "Conv", NAMES(x, w), at_ints("pads", INTS(1, 1, 1, 1)));
    b = build_node(&n.b, "Conv", NAMES(net_relu(&n, a), w), at_ints("pads", INTS(1, 1, 1, 1)));
    x = net_conv(&n, b, ALL, 8, 4, 1);
    EXPECT(&n, x, 6, 6, 6, 4);
}

/* NNI's case N31: LeNet at 50 % except its last layer. */
static void test_n31_lenet(void **state)
{
    struct net n = net_new(24);
    const char *x = build_input(&n.b, PARE_F32, INTS(1, 1, 28, 28));
    struct bin pool2 = CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2)));

    (void)state;
    n.zero_bias = n.unpadded = true;
    x = net_relu(&n, net_conv(&n, x, HALF, 1, 6, 5));
    x = build_node(&n.b, "MaxPool", NAMES(x), pool2);
    x = net_relu(&n, net_conv(&n, x, HALF, 6, 16, 5));
    x = build_node(&n.b, "MaxPool", NAMES(x), pool2);
    x = build_node(&n.b, "Flatten", NAMES(x), NOTHING);
    x = net_relu(&n, net_gemm(&n, x, HALF, 256, 120));
    x = net_relu(&n, net_gemm(&n, x, HALF, 120, 84));
    x = net_gemm(&n, x, ALL, 84, 10);
    EXPECT(&n, x, 3, 8, 60, 42, 10);
}

/* A weight that is 0 for outputs i with i % of >= some. */
static const char *periodic_weight(struct net *n, int rank, const int64_t *dim, int64_t some,
                                   int64_t of)
{
    struct pare_tensor t = net_random(n, 0, 0.6f, rank, dim);
    int64_t each = pare_numel(&t) / dim[0];

    for (int64_t i = 0; i < pare_numel(&t); i++)
        if (i / each % of >= some)
            pare_f32_mut(&t)[i] = 0;
    return build_floats(&n->b, rank, dim, pare_f32(&t));
}

/* NNI's case N28: a grouped convolution parallel to another one, three quarters masked. */
static void test_n28_three_quarters(void **state)
{
    struct net n = net_new(35);
    const char *x = build_input(&n.b, PARE_F32, INTS(2, 1, 10, 10)), *a, *b;

    (void)state;
    x = build_node(&n.b, "Conv", NAMES(x, periodic_weight(&n, INTS(16, 1, 3, 3), 1, 4)), NOTHING);
    x = net_relu(&n, x);
    a = periodic_weight(&n, INTS(32, 4, 3, 3), 2, 8);
    a = build_node(&n.b, "Conv", NAMES(x, a), at_int("group", 4));
    b = build_node(&n.b, "Conv", NAMES(x, periodic_weight(&n, INTS(32, 16, 3, 3), 2, 8)), NOTHING);
    x = build_node(&n.b, "Flatten", NAMES(net_relu(&n, net_add(&n, a, b))), NOTHING);
    a = periodic_weight(&n, INTS(100, 32 * 36), 1, 4);
    x = net_relu(&n, build_node(&n.b, "Gemm", NAMES(x, a), at_int("transB", 1)));
    EXPECT(&n, net_gemm(&n, x, ALL, 100, 10), 4, 8, 8, 25, 10);
}

static void test_channels_rounded_to_8(void **state)
{
    struct net n = net_new(25);
    const char *x = net_image(&n);
    struct pare_speedup_opts o = { .round_to = 8, .threads = 1 };
    struct speedup_result s;

    (void)state;
    x = net_block(&n, x, HALF, 3, 20);
    x = net_block(&n, x, FRONT, 20, 12);
    build_output(&n.b, net_conv(&n, x, ALL, 12, 4, 1));
    s = net_speedup_with(&n, &o);
    assert_int_equal(speedup_out_channels(&s, 0), 16);
    assert_int_equal(speedup_out_channels(&s, 1), 8);
    speedup_free(&s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_padded_blocks),
        T(test_convolutions_without_padding),
        T(test_convolution_gets_a_bias),
        T(test_residual),
        T(test_concat),
        T(test_residual_with_different_masks),
        T(test_depthwise),
        T(test_concat_with_itself),
        T(test_whole_groups),
        T(test_concat_into_residual),
        T(test_conv_transpose),
        T(test_depthwise_with_different_masks),
        T(test_pools),
        T(test_squeeze_excite),
        T(test_constant_pad),
        T(test_pool_that_counts_padding),
        T(test_layer_without_channels),
        T(test_sum_over_channels),
        T(test_u_net),
        T(test_mean_over_channels),
        T(test_unread_channels),
        T(test_detection_outputs),
        T(test_shared_weight),
        T(test_n31_lenet),
        T(test_channels_rounded_to_8),
        T(test_different_channels_of_groups),
        T(test_unbalanced_groups),
        T(test_n28_three_quarters),
        T(test_zero_pad),
        T(test_pad_of_nothing),
        T(test_sums_of_zeros),
        T(test_value_added_to_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
