/* test_speedup_networks.c - speedup of other networks: matrices, data movement, attention. */
#include "speedup_rig.h"

static const char *unary(struct net *n, const char *type, const char *x)
{
    return build_node(&n->b, type, NAMES(x), NOTHING);
}

/* MatMul with a constant on the right, followed by an Add; `which` of the outputs have weights. */
static const char *linear(struct net *n, const char *x, int which, int64_t I, int64_t O)
{
    const char *w = WEIGHT(n, which, 1, I, O), *b = net_bias(n, which, O);

    return net_add(n, build_node(&n->b, "MatMul", NAMES(x, w), NOTHING), b);
}

static const char *layer_norm(struct net *n, const char *x, int64_t C)
{
    const char *scale = CONST(n, 1, 0.3f, C), *bias = CONST(n, 0, 0.3f, C);

    return build_node(&n->b, "LayerNormalization", NAMES(x, scale, bias), at_int("axis", -1));
}

static const char *reshape(struct net *n, const char *x, int rank, const int64_t *dim)
{
    return build_node(&n->b, "Reshape", NAMES(x, build_ints(&n->b, rank, dim)), NOTHING);
}

static const char *transpose(struct net *n, const char *x, int rank, const int64_t *perm)
{
    return build_node(&n->b, "Transpose", NAMES(x), at_ints("perm", rank, perm));
}

static void test_mlp(void **state)
{
    struct net n = net_new(1);
    const char *x = build_input(&n.b, PARE_F32, INTS(2, 12));

    (void)state;
    x = unary(&n, "Tanh", net_gemm(&n, x, HALF, 12, 20));
    x = unary(&n, "Sigmoid", linear(&n, x, FRONT, 20, 10));
    EXPECT(&n, net_gemm(&n, x, ALL, 10, 3), 10, 5, 3);
}

/* A Gemm with alpha and beta: a constant is folded into a bias that is multiplied. */
static void test_gemm_with_factors(void **state)
{
    struct net n = net_new(2);
    const char *x = build_input(&n.b, PARE_F32, INTS(2, 12)), *w, *b;

    (void)state;
    x = unary(&n, "Sigmoid", net_gemm(&n, x, HALF, 12, 20));
    w = WEIGHT(&n, HALF, 1, 20, 8);
    b = net_bias(&n, ALL, 8);
    x = build_node(&n.b, "Gemm", NAMES(x, w, b),
                   CAT(at_float("alpha", 0.7f), at_float("beta", 1.7f)));
    EXPECT(&n, net_gemm(&n, unary(&n, "Sigmoid", x), ALL, 8, 3), 10, 4, 3);
}

/* No bias anywhere: an Add is inserted after the MatMul. */
static void test_matmul_gets_a_bias(void **state)
{
    struct net n = net_new(3);
    const char *x = build_input(&n.b, PARE_F32, INTS(2, 5, 12)), *w;

    (void)state;
    x = unary(&n, "Sigmoid", linear(&n, x, HALF, 12, 20));
    w = WEIGHT(&n, ALL, 1, 20, 6);
    EXPECT(&n, unary(&n, "Relu", build_node(&n.b, "MatMul", NAMES(x, w), NOTHING)), 10, 6);
}

/* MatMul with a constant on the left: rows are channels. */
static void test_matmul_with_constant_on_the_left(void **state)
{
    struct net n = net_new(4);
    const char *x = build_input(&n.b, PARE_F32, INTS(7, 4)), *w;
    struct speedup_result s;

    (void)state;
    w = WEIGHT(&n, HALF, 0, 10, 7);
    x = unary(&n, "Cos", build_node(&n.b, "MatMul", NAMES(w, x), NOTHING));
    w = WEIGHT(&n, ALL, 0, 3, 10);
    build_output(&n.b, build_node(&n.b, "MatMul", NAMES(w, x), NOTHING));
    s = net_speedup(&n);
    assert_int_equal(s.r.params, 10 * 7 + 3 * 10);
    assert_int_equal(s.r.params_left, 5 * 7 + 3 * 5 + 3); /* with a new bias */
    speedup_free(&s);
}

static void test_flatten(void **state)
{
    struct net n = net_new(5);
    const char *x = net_image(&n);

    (void)state;
    x = net_block(&n, x, HALF, 3, 6);
    x = unary(&n, "Flatten", x);
    EXPECT(&n, net_gemm(&n, x, ALL, 6 * 72, 5), 3, 5);
}

static void test_normalizations(void **state)
{
    struct net n = net_new(6);
    const char *x = net_image(&n), *a, *b;

    (void)state;
    x = net_conv(&n, x, HALF, 3, 12, 3);
    a = CONST(&n, 1, 0.4f, 12);
    b = CONST(&n, 0.2f, 0.4f, 12);
    x = build_node(&n.b, "InstanceNormalization", NAMES(x, a, b), NOTHING);
    a = CONST(&n, 0.2f, 0.1f, 12, 1, 1);
    x = build_node(&n.b, "PRelu", NAMES(x, a), NOTHING);
    x = net_conv(&n, x, HALF, 12, 8, 1);
    x = layer_norm(&n, transpose(&n, x, INTS(0, 2, 3, 1)), 8);
    EXPECT(&n, x, 6, 4);
}

/* Statistics of a group depend on all its channels: only whole groups are removed. */
static void test_group_normalization(void **state)
{
    struct net n = net_new(7);
    const char *x = net_image(&n), *a, *b;

    (void)state;
    n.b.opset = 18;
    x = net_conv(&n, x, FRONT, 3, 12, 3);
    a = CONST(&n, 1, 0.4f, 4);
    b = CONST(&n, 0.2f, 0.4f, 4);
    x = build_node(&n.b, "GroupNormalization", NAMES(x, a, b), at_int("num_groups", 4));
    EXPECT(&n, net_conv(&n, x, ALL, 12, 4, 1), 6, 4);
}

static void test_split(void **state)
{
    struct net n = net_new(8);
    const char *x = net_image(&n), *part[3], *sizes;

    (void)state;
    x = net_block(&n, x, HALF, 3, 12);
    sizes = build_ints(&n.b, INTS(3, 4, 5));
    build_node_outs(&n.b, "Split", NAMES(x, sizes), at_int("axis", 1), 3, part);
    build_output(&n.b, net_conv(&n, part[0], ALL, 3, 2, 1));
    build_output(&n.b, net_conv(&n, part[1], ALL, 4, 2, 1));
    EXPECT(&n, net_conv(&n, part[2], ALL, 5, 2, 1), 6, 2, 2, 2);
}

/* A Split without sizes, which needs sizes after speedup. */
static void test_split_without_sizes(void **state)
{
    struct net n = net_new(9);
    const char *x = net_image(&n), *part[2];

    (void)state;
    x = net_block(&n, x, FRONT, 3, 12);
    build_node_outs(&n.b, "Split", NAMES(x), at_int("axis", 1), 2, part);
    build_output(&n.b, net_conv(&n, part[0], ALL, 6, 2, 1));
    EXPECT(&n, net_conv(&n, part[1], ALL, 6, 2, 1), 7, 2, 2);
}

static void test_slice(void **state)
{
    struct net n = net_new(10);
    const char *x = net_image(&n), *start, *end, *axes;

    (void)state;
    x = net_block(&n, x, HALF, 3, 12);
    start = build_ints(&n.b, INTS(3));
    end = build_ints(&n.b, INTS(-1));
    axes = build_ints(&n.b, INTS(1));
    x = build_node(&n.b, "Slice", NAMES(x, start, end, axes), NOTHING);
    EXPECT(&n, net_conv(&n, x, ALL, 8, 2, 1), 4, 2);
}

static void test_gather(void **state)
{
    struct net n = net_new(11);
    const char *x = net_image(&n), *index;

    (void)state;
    x = net_block(&n, x, HALF, 3, 8);
    index = build_ints(&n.b, INTS(7, 6, 0, 1, -4, 2, 0));
    x = build_node(&n.b, "Gather", NAMES(x, index), at_int("axis", 1));
    EXPECT(&n, net_conv(&n, x, ALL, 7, 2, 1), 4, 2);
}

/* Channel shuffle: both channels of an interleaved pair are removed. */
static void test_channel_shuffle(void **state)
{
    struct net n = net_new(12);
    const char *x = net_image(&n);

    (void)state;
    n.zero_bias = true;
    x = net_relu(&n, net_conv(&n, x, HALF, 3, 12, 3));
    x = reshape(&n, x, INTS(2, 2, 6, 9, 8));
    x = reshape(&n, transpose(&n, x, INTS(0, 2, 1, 3, 4)), INTS(2, 12, 9, 8));
    EXPECT(&n, net_conv(&n, x, ALL, 12, 4, 1), 6, 4);
}

/* Two shuffles with a split between them, as ShuffleNet has; the halves lose different channels. */
static void test_channel_shuffle_of_any_channels(void **state)
{
    struct net n = net_new(12);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, 9, 8)), *part[2];

    (void)state;
    n.zero_bias = true;
    x = build_node(&n.b, "Concat",
                   NAMES(net_relu(&n, net_conv(&n, x, FRONT, 3, 6, 3)),
                         net_relu(&n, net_conv(&n, x, HALF, 3, 6, 3))),
                   at_int("axis", 1));
    for (int i = 0; i < 2; i++) {
        x = reshape(&n, x, INTS(0, 2, 6, 9, 8));
        x = reshape(&n, transpose(&n, x, INTS(0, 2, 1, 3, 4)), INTS(0, 12, 9, 8));
        if (i)
            break;
        build_node_outs(&n.b, "Split", NAMES(x), at_int("axis", 1), 2, part);
        part[1] = net_relu(&n, net_conv(&n, part[1], BACK, 6, 6, 1));
        x = build_node(&n.b, "Concat", NAMES(part[0], part[1]), at_int("axis", 1));
    }
    EXPECT(&n, net_conv(&n, x, ALL, 12, 4, 1), 3, 3, 3, 4);
}

/* A shuffle between grouped convolutions: each group loses as many channels, but not the same. */
static void test_shuffle_between_groups(void **state)
{
    const struct pare_prune_opts o = { .pruner = "l1",
                                       .sparsity = 0.5,
                                       .settings = "mode=dependency_aware" };
    struct net n = net_new(5);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, 9, 8));
    struct pare_speedup_opts so = { .threads = 1 };
    struct pare_prune_report r;
    struct speedup_result s;
    struct pare_model *m;
    struct pare_err err;

    (void)state;
    x = net_relu(&n, net_conv(&n, x, ALL, 3, 24, 3));
    x = net_relu(&n, net_grouped_conv(&n, x, ALL, 24, 6, 1));
    x = reshape(&n, x, INTS(0, 4, 6, 9, 8));
    x = reshape(&n, transpose(&n, x, INTS(0, 2, 1, 3, 4)), INTS(0, 24, 9, 8));
    x = net_relu(&n, net_grouped_conv(&n, x, ALL, 24, 6, 1));
    build_output(&n.b, net_conv(&n, x, ALL, 24, 4, 1));
    m = build_model(&n.b);
    if (pare_prune(m, &o, &s.before, &r, &err) ||
        pare_speedup(s.before, &so, pool, &s.after, &s.r, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(speedup_out_channels(&s, 0), 12);
    assert_in_range(speedup_out_channels(&s, 1), 8, 16);
    assert_int_equal(speedup_out_channels(&s, 2), 12);
    for (int i = 0; i < s.r.n_layers; i++)
        assert_false(s.r.layer[i].coupled);
    speedup_free(&s);
    pare_model_free(m);
}

/* Channels of four pixels each: half of them are removed if they are contiguous; in the other order
 * every channel has a pixel in the first half. */
static void test_depth_to_space(void **state)
{
    struct net n = net_new(13);
    const char *x = net_image(&n);

    (void)state;
    n.zero_bias = true;
    x = net_relu(&n, net_conv(&n, x, FRONT, 3, 16, 3));
    x = build_node(&n.b, "DepthToSpace", NAMES(x),
                   CAT(at_int("blocksize", 2), at_text("mode", "CRD")));
    x = net_relu(&n, net_conv(&n, x, FRONT, 4, 16, 3));
    x = build_node(&n.b, "DepthToSpace", NAMES(x), at_int("blocksize", 2));
    EXPECT(&n, net_conv(&n, x, ALL, 4, 4, 3), 8, 16, 4);
}

static void test_squeeze_and_unsqueeze(void **state)
{
    struct net n = net_new(14);
    const char *x = net_image(&n), *axes = build_ints(&n.b, INTS(2, 3));

    (void)state;
    x = net_block(&n, x, HALF, 3, 12);
    x = build_node(&n.b, "ReduceMean", NAMES(x), at_ints("axes", INTS(2, 3)));
    x = build_node(&n.b, "Squeeze", NAMES(x, axes), NOTHING);
    x = net_gemm(&n, x, HALF, 12, 8);
    x = build_node(&n.b, "Unsqueeze", NAMES(x, axes), NOTHING);
    EXPECT(&n, net_conv(&n, x, ALL, 8, 3, 1), 6, 4, 3);
}

/* Positions computed by Range and Shape are added: no channel is removed. */
static void test_positions_from_shape(void **state)
{
    struct net n = net_new(15);
    const char *x = net_image(&n), *s, *r;

    (void)state;
    x = net_block(&n, x, HALF, 3, 12);
    s = unary(&n, "Shape", x);
    s = build_node(&n.b, "Gather", NAMES(s, build_const(&n.b, PARE_I64, 0, NULL, &(int64_t){ 3 })),
                   NOTHING);
    r = build_node(&n.b, "Range",
                   NAMES(build_const(&n.b, PARE_I64, 0, NULL, &(int64_t){ 0 }), s,
                         build_const(&n.b, PARE_I64, 0, NULL, &(int64_t){ 1 })),
                   NOTHING);
    r = build_node(&n.b, "Cast", NAMES(r), at_int("to", PARE_F32));
    EXPECT(&n, net_conv(&n, net_add(&n, x, r), ALL, 12, 3, 1), 12, 3);
}

/* A value is divided by the number of channels, which must not change. */
static void test_division_by_the_number_of_channels(void **state)
{
    struct net n = net_new(16);
    const char *x = net_image(&n), *s;

    (void)state;
    x = net_block(&n, x, HALF, 3, 12);
    s = unary(&n, "Shape", x);
    s = build_node(&n.b, "Gather", NAMES(s, build_const(&n.b, PARE_I64, 0, NULL, &(int64_t){ 1 })),
                   NOTHING);
    s = build_node(&n.b, "Cast", NAMES(s), at_int("to", PARE_F32));
    x = build_node(&n.b, "Div", NAMES(x, s), NOTHING);
    EXPECT(&n, net_conv(&n, x, ALL, 12, 3, 1), 12, 3);
}

/* An embedding whose table is also the last layer's weight, transposed. */
static void test_tied_embedding(void **state)
{
    struct net n = net_new(17);
    const char *ids = build_input(&n.b, PARE_I64, INTS(1, 5)), *table, *x;

    (void)state;
    table = WEIGHT(&n, HALF, 1, 20, 12);
    x = build_node(&n.b, "Gather", NAMES(table, ids), NOTHING);
    x = unary(&n, "Relu", linear(&n, x, HALF, 12, 16));
    x = linear(&n, x, HALF, 16, 12);
    x = build_node(&n.b, "MatMul", NAMES(x, transpose(&n, table, INTS(1, 0))), NOTHING);
    EXPECT(&n, x, 8, 6, 20);
}

/* ---- attention ----------------------------------------------------------------------------- */

enum { S = 5, HEADS = 4, DIM = 3, E = HEADS * DIM };

/* (1, S, E) to heads (1, HEADS, S, DIM); transposed: (1, HEADS, DIM, S). */
static const char *split_heads(struct net *n, const char *x, bool transposed)
{
    x = reshape(n, x, INTS(1, S, HEADS, DIM));
    return transposed ? transpose(n, x, INTS(0, 2, 3, 1)) : transpose(n, x, INTS(0, 2, 1, 3));
}

static const char *add_attention(struct net *n, const char *x, int which)
{
    const char *q = split_heads(n, linear(n, x, which, E, E), false);
    const char *k = split_heads(n, linear(n, x, which, E, E), true);
    const char *v = split_heads(n, linear(n, x, which, E, E), false);
    const char *a = build_node(&n->b, "MatMul", NAMES(q, k), NOTHING);

    a = build_node(&n->b, "Softmax", NAMES(a), at_int("axis", -1));
    a = transpose(n, build_node(&n->b, "MatMul", NAMES(a, v), NOTHING), INTS(0, 2, 1, 3));
    return linear(n, reshape(n, a, INTS(1, S, E)), ALL, E, E);
}

/* Two of four heads are removed. */
static void test_attention_heads(void **state)
{
    struct net n = net_new(18);
    const char *x = build_input(&n.b, PARE_F32, INTS(1, S, E));

    (void)state;
    n.zero_bias = true;
    x = net_add(&n, x, add_attention(&n, layer_norm(&n, x, E), FRONT));
    EXPECT(&n, x, 6, 6, 6, E);
}

/* Queries, keys and values in one weight; split: separated by Split, or by Reshape and Gather as
 * timm does. */
static const char *add_fused_attention(struct net *n, const char *x, bool split)
{
    struct pare_tensor w = net_random(n, 0, 0.6f, INTS(E, 3 * E));
    struct pare_tensor b = net_random(n, 0.1f, 0.5f, INTS(3 * E));
    const char *part[3], *a;

    for (int64_t i = 0; i < pare_numel(&w); i++)
        if (i % E >= E / 2)
            pare_f32_mut(&w)[i] = 0;
    for (int64_t i = 0; i < 3 * E; i++)
        if (i % E >= E / 2)
            pare_f32_mut(&b)[i] = 0;
    x = build_node(&n->b, "MatMul", NAMES(x, build_floats(&n->b, 2, w.dim, pare_f32(&w))), NOTHING);
    x = net_add(n, x, build_floats(&n->b, 1, b.dim, pare_f32(&b)));
    if (split) {
        build_node_outs(&n->b, "Split", NAMES(x, build_ints(&n->b, INTS(E, E, E))),
                        at_int("axis", 2), 3, part);
        for (int i = 0; i < 3; i++)
            part[i] = split_heads(n, part[i], i == 1);
    } else {
        x = transpose(n, reshape(n, x, INTS(1, S, 3, HEADS, DIM)), INTS(2, 0, 3, 1, 4));
        for (int64_t i = 0; i < 3; i++)
            part[i] = build_node(&n->b, "Gather",
                                 NAMES(x, build_const(&n->b, PARE_I64, 0, NULL, &i)),
                                 at_int("axis", 0));
        part[1] = transpose(n, part[1], INTS(0, 1, 3, 2));
    }
    a = build_node(&n->b, "MatMul", NAMES(part[0], part[1]), NOTHING);
    a = build_node(&n->b, "Softmax", NAMES(a), at_int("axis", -1));
    a = transpose(n, build_node(&n->b, "MatMul", NAMES(a, part[2]), NOTHING), INTS(0, 2, 1, 3));
    return linear(n, reshape(n, a, INTS(1, S, E)), ALL, E, E);
}

static void test_fused_attention_heads(void **state)
{
    (void)state;
    for (int split = 0; split < 2; split++) {
        struct net n = net_new(30);
        const char *x = build_input(&n.b, PARE_F32, INTS(1, S, E));

        x = net_add(&n, x, add_fused_attention(&n, layer_norm(&n, x, E), split));
        EXPECT(&n, x, 3 * E / 2, E);
    }
}

static void test_feed_forward(void **state)
{
    struct net n = net_new(19);
    const char *x = build_input(&n.b, PARE_F32, INTS(1, S, E)), *y;

    (void)state;
    y = linear(&n, layer_norm(&n, x, E), HALF, E, 4 * E);
    y = build_node(&n.b, "Mul", NAMES(y, unary(&n, "Sigmoid", y)), NOTHING);
    EXPECT(&n, net_add(&n, x, linear(&n, y, ALL, 4 * E, E)), 2 * E, E);
}

/* The channels of an operator without ties are kept; others are removed. */
static void test_operator_without_ties(void **state)
{
    struct net n = net_new(21);
    const char *x = net_image(&n);
    struct speedup_result s;

    (void)state;
    x = net_block(&n, x, HALF, 3, 12);
    x = net_block(&n, x, HALF, 12, 8);
    x = build_node(&n.b, "LRN", NAMES(x), at_int("size", 3));
    build_output(&n.b, net_conv(&n, x, ALL, 8, 3, 1));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 7);
    assert_int_equal(speedup_out_channels(&s, 1), 8);
    for (int i = 0; i < s.r.n_layers; i++)
        if (s.r.layer[i].out == 8)
            assert_non_null(s.r.layer[i].why);
    speedup_free(&s);
}

/* Weights in Constant nodes, as old exporters write them, and a free batch. */
static void test_weights_in_constant_nodes(void **state)
{
    struct net n = net_new(22);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, 9, 8)), *w;
    struct pare_tensor t = net_random(&n, 0, 0.5f, INTS(8, 3, 3, 3));

    (void)state;
    memset(t.data, 0, 4 * 27 * sizeof(float));
    w = build_node(&n.b, "Constant", 0, NULL,
                   msg(5, CAT(text(1, "value"),
                              msg(5, CAT(build_dims(4, t.dim, 1), num(2, PARE_F32),
                                         blob(9, t.data, 8 * 27 * sizeof(float)))),
                              num(20, 4))));
    x = unary(&n, "Relu", build_node(&n.b, "Conv", NAMES(x, w), NOTHING));
    x = reshape(&n, x, INTS(0, 8, 42));
    x = transpose(&n, x, INTS(0, 2, 1));
    EXPECT(&n, linear(&n, x, ALL, 8, 3), 4, 3);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_mlp),
        T(test_gemm_with_factors),
        T(test_matmul_gets_a_bias),
        T(test_matmul_with_constant_on_the_left),
        T(test_flatten),
        T(test_normalizations),
        T(test_group_normalization),
        T(test_split),
        T(test_split_without_sizes),
        T(test_slice),
        T(test_gather),
        T(test_channel_shuffle),
        T(test_channel_shuffle_of_any_channels),
        T(test_shuffle_between_groups),
        T(test_depth_to_space),
        T(test_squeeze_and_unsqueeze),
        T(test_positions_from_shape),
        T(test_division_by_the_number_of_channels),
        T(test_tied_embedding),
        T(test_attention_heads),
        T(test_fused_attention_heads),
        T(test_feed_forward),
        T(test_operator_without_ties),
        T(test_weights_in_constant_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
