/* test_speedup_rows.c - speedup of normalizations along the channels: LayerNormalization and
 * RMSNormalization, as one operator and written out, lose channels of their input and result.
 *
 * Each network is verified: pare_speedup() fails if the smaller model computes something else.
 */
#include "speedup_rig.h"

static const char *linear(struct net *n, const char *x, int which, int64_t I, int64_t O)
{
    const char *w = WEIGHT(n, which, 1, I, O), *b = net_bias(n, which, O);

    return net_add(n, build_node(&n->b, "MatMul", NAMES(x, w), NOTHING), b);
}

/* A list around `mid` with zeros for the channels that `which` excludes. */
static const char *masked_list(struct net *n, float mid, int which, int64_t C)
{
    struct pare_tensor t = net_random(n, mid, 0.4f, 1, &C);

    for (int64_t i = 0; i < C; i++)
        if (!net_keeps(which, i, C))
            pare_f32_mut(&t)[i] = 0;
    return build_floats(&n->b, 1, &C, pare_f32(&t));
}

/* x - mean and so on, for opsets without the operator. */
static const char *written_norm(struct net *n, const char *x, bool center, const char *scale,
                                const char *bias)
{
    struct bin mean = CAT(at_ints("axes", INTS(-1)), at_int("keepdims", 1));
    const char *s;

    if (center)
        x = build_node(&n->b, "Sub", NAMES(x, build_node(&n->b, "ReduceMean", NAMES(x), mean)),
                       NOTHING);
    s = build_node(&n->b, "Pow", NAMES(x, build_scalar(&n->b, 2)), NOTHING);
    s = build_node(&n->b, "ReduceMean", NAMES(s), mean);
    s = net_add(n, s, build_scalar(&n->b, 1e-3f));
    s = build_node(&n->b, "Sqrt", NAMES(s), NOTHING);
    x = build_node(&n->b, "Div", NAMES(x, s), NOTHING);
    x = build_node(&n->b, "Mul", NAMES(x, scale), NOTHING);
    return bias ? net_add(n, x, bias) : x;
}

/* x * s + (bias - mean * s), as TensorFlow writes it. */
static const char *scaled_norm(struct net *n, const char *x, const char *scale, const char *bias)
{
    struct bin mean = CAT(at_ints("axes", INTS(-1)), at_int("keepdims", 1));
    const char *m = build_node(&n->b, "ReduceMean", NAMES(x), mean), *s;

    s = build_node(&n->b, "Sub", NAMES(x, m), NOTHING);
    s = build_node(&n->b, "Mul", NAMES(s, s), NOTHING);
    s = net_add(n, build_node(&n->b, "ReduceMean", NAMES(s), mean), build_scalar(&n->b, 1e-3f));
    s = build_node(&n->b, "Reciprocal", NAMES(build_node(&n->b, "Sqrt", NAMES(s), NOTHING)),
                   NOTHING);
    s = build_node(&n->b, "Mul", NAMES(s, scale), NOTHING);
    m = build_node(&n->b, "Mul", NAMES(m, s), NOTHING);
    return net_add(n, build_node(&n->b, "Mul", NAMES(x, s), NOTHING),
                   build_node(&n->b, "Sub", NAMES(bias, m), NOTHING));
}

enum norm { OPERATOR, WRITTEN, SCALED, RMS, WRITTEN_RMS };

static const char *normalize(struct net *n, enum norm kind, const char *x, const char *scale,
                             const char *bias)
{
    switch (kind) {
    case OPERATOR:
        return build_node(&n->b, "LayerNormalization", NAMES(x, scale, bias),
                          at_float("epsilon", 1e-3f));
    case WRITTEN: return written_norm(n, x, true, scale, bias);
    case SCALED: return scaled_norm(n, x, scale, bias);
    case RMS: return build_node(&n->b, "RMSNormalization", NAMES(x, scale), NOTHING);
    case WRITTEN_RMS: return written_norm(n, x, false, scale, NULL);
    }
    return NULL;
}

/* What is masked: the residual stream, the scale and the bias of the normalization. */
struct masks {
    int stream, scale, bias;
    bool constant; /* masked channels of the stream are constants other than 0 */
};

/* x -> stream (C = 12); stream + two layers of its normalization; 3 outputs.  Expects `inner`
 * channels to enter the two layers, and `stream` to remain in it. */
static void expect_block(enum norm kind, int opset, struct masks m, int64_t inner, int64_t stream)
{
    struct net n = net_new(3 + (uint64_t)kind);
    const char *x, *y;
    struct speedup_result s;

    n.b.opset = opset;
    n.zero_bias = !m.constant;
    x = linear(&n, build_input(&n.b, PARE_F32, INTS(-1, -1, 6)), m.stream, 6, 12);
    y = normalize(&n, kind, x, masked_list(&n, 1, m.scale, 12), masked_list(&n, 0.5f, m.bias, 12));
    y = linear(&n, net_relu(&n, linear(&n, y, ALL, 12, 10)), m.stream, 10, 12);
    build_output(&n.b, linear(&n, net_add(&n, x, y), ALL, 12, 3));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), stream);
    assert_int_equal(speedup_in_channels(&s, 1), inner);
    assert_int_equal(speedup_out_channels(&s, 2), stream);
    assert_int_equal(speedup_in_channels(&s, 3), stream);
    speedup_free(&s);
}

/* Zeros are appended to the rows, and the first channels of the result are kept. */
static void test_same_channels_of_input_and_result(void **state)
{
    static const int opsets[] = { 9, 10, 11, 13, 17 };
    const struct masks m = { HALF, HALF, HALF, false };

    (void)state;
    for (int i = 0; i < 5; i++) {
        expect_block(WRITTEN, opsets[i], m, 6, 6);
        expect_block(SCALED, opsets[i], m, 6, 6);
        expect_block(WRITTEN_RMS, opsets[i], m, 6, 6);
    }
    expect_block(OPERATOR, 17, m, 6, 6);
    expect_block(RMS, 23, m, 6, 6);
}

/* The result loses other channels than the input, or channels of an input that keeps all. */
static void test_other_channels_of_the_result(void **state)
{
    (void)state;
    expect_block(OPERATOR, 17, (struct masks){ FRONT, HALF, HALF, false }, 6, 6);
    expect_block(OPERATOR, 17, (struct masks){ ALL, HALF, HALF, false }, 6, 12);
    expect_block(WRITTEN, 9, (struct masks){ FRONT, HALF, HALF, false }, 6, 6);
    expect_block(RMS, 23, (struct masks){ BACK, HALF, HALF, false }, 6, 6);
}

/* A removed channel of the input alone has a result: (0 - mean) / deviation. */
static void test_input_alone(void **state)
{
    (void)state;
    expect_block(OPERATOR, 17, (struct masks){ HALF, ALL, ALL, false }, 12, 6);
    expect_block(WRITTEN, 11, (struct masks){ HALF, ALL, ALL, false }, 12, 6);
}

/* With scale 0 a channel is its bias, which is folded into the next layer. */
static void test_constant_channels_of_the_result(void **state)
{
    (void)state;
    expect_block(OPERATOR, 17, (struct masks){ HALF, HALF, ALL, false }, 6, 6);
    expect_block(WRITTEN, 13, (struct masks){ ALL, FRONT, ALL, false }, 6, 12);
}

/* Constants of the stream are put back before the normalization. */
static void test_constant_channels_of_the_input(void **state)
{
    (void)state;
    expect_block(OPERATOR, 17, (struct masks){ HALF, HALF, HALF, true }, 6, 6);
    expect_block(OPERATOR, 17, (struct masks){ HALF, ALL, ALL, true }, 12, 6);
    expect_block(WRITTEN, 9, (struct masks){ BACK, HALF, ALL, true }, 6, 6);
    expect_block(RMS, 23, (struct masks){ FRONT, FRONT, ALL, true }, 6, 6);
}

/* Two normalizations share scale and bias, and only one of them loses channels of its input: the
 * order of its lists changes, and that of the other does not. */
static void test_shared_lists(void **state)
{
    struct net n = net_new(9);
    const char *x, *a, *b, *scale, *bias;
    struct speedup_result s;

    (void)state;
    n.zero_bias = true;
    x = build_input(&n.b, PARE_F32, INTS(2, 5, 6));
    scale = masked_list(&n, 1, BACK, 12);
    bias = masked_list(&n, 0.5f, BACK, 12);
    a = normalize(&n, OPERATOR, linear(&n, x, BACK, 6, 12), scale, bias);
    b = normalize(&n, OPERATOR, linear(&n, x, ALL, 6, 12), scale, bias);
    build_output(&n.b, linear(&n, a, ALL, 12, 3));
    build_output(&n.b, linear(&n, b, ALL, 12, 3));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 6);
    assert_int_equal(speedup_out_channels(&s, 1), 12);
    assert_int_equal(speedup_in_channels(&s, 2), 6);
    assert_int_equal(speedup_in_channels(&s, 3), 6);
    speedup_free(&s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_same_channels_of_input_and_result),
        T(test_other_channels_of_the_result),
        T(test_input_alone),
        T(test_constant_channels_of_the_result),
        T(test_constant_channels_of_the_input),
        T(test_shared_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
