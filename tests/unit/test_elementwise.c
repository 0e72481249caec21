/* test_elementwise.c - elementwise operators: broadcasting, integer overflow and division, NaN. */
#include "one_node.h"

/* ---- broadcasting ----------------------------------------------------------------- */

static int64_t broadcast_offset(const struct pare_tensor *t, const struct pare_tensor *y, int64_t i)
{
    int64_t offset = 0, stride = 1;

    for (int a = y->rank - 1, k = t->rank - 1; a >= 0; i /= y->dim[a], a--, k--)
        if (k >= 0) {
            offset += t->dim[k] == 1 ? 0 : i % y->dim[a] * stride;
            stride *= t->dim[k];
        }
    return offset;
}

/* Element i is i times `by`. */
static void count_up(const struct pare_tensor *t, int16_t by)
{
    for (int64_t i = 0; i < pare_numel(t); i++)
        if (t->dtype == PARE_F32)
            pare_f32_mut(t)[i] = (float)(by * i);
        else
            ((int16_t *)t->data)[i] = (int16_t)(by * i);
}

/* Sub in two types, against an index computed for each element. */
static void check_broadcast(int ra, const int64_t *da, int rb, const int64_t *db)
{
    for (int k = 0; k < 2; k++) {
        enum pare_dtype d = k ? PARE_I16 : PARE_F32;
        struct fixture f = fixture_begin("Sub", 13);
        const struct pare_tensor *a = &f.value[0].t, *b = &f.value[1].t, *y;

        add_input(&f, d, ra, da, NULL);
        add_input(&f, d, rb, db, NULL);
        count_up(a, 100);
        count_up(b, 1);
        y = run_op(&f);
        for (int64_t i = 0; i < pare_numel(y); i++)
            assert_true(pare_get(y, i) ==
                        (double)(100 * broadcast_offset(a, y, i) - broadcast_offset(b, y, i)));
        fixture_end(&f);
    }
}

static void test_broadcasting_of_typical_shapes(void **state)
{
    (void)state;
    check_broadcast(0, NULL, 0, NULL);
    check_broadcast(2, DIMS(2, 3), 0, NULL);
    check_broadcast(0, NULL, 2, DIMS(2, 3));
    check_broadcast(2, DIMS(2, 3), 1, DIMS(3));             /* row */
    check_broadcast(2, DIMS(2, 3), 2, DIMS(2, 1));          /* column */
    check_broadcast(3, DIMS(2, 3, 4), 3, DIMS(2, 1, 4));    /* middle */
    check_broadcast(4, DIMS(2, 3, 4, 5), 3, DIMS(3, 1, 1)); /* channels */
    check_broadcast(3, DIMS(2, 1, 3), 3, DIMS(1, 4, 1));    /* both inputs */
    check_broadcast(3, DIMS(2, 0, 3), 1, DIMS(1));          /* no elements */
    check_broadcast(2, DIMS(1, 1), 3, DIMS(1, 1, 1));
}

static void test_broadcasting_of_random_shapes(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int t = 0; t < 400; t++) {
        int64_t a[5], b[5];
        int ra, rb;

        for (int i = 0; i < 5; i++) {
            seed = seed * 1664525 + 1013904223;
            a[i] = b[i] = 1 + (seed >> 20) % 3;
            if (seed >> 28 & 1)
                a[i] = 1;
            if (seed >> 29 & 1)
                b[i] = 1;
        }
        ra = (int)(seed >> 10) % 6;
        rb = (int)(seed >> 13) % 6;
        check_broadcast(ra, a + 5 - ra, rb, b + 5 - rb);
    }
}

static void test_shapes_that_cannot_be_broadcast(void **state)
{
    struct fixture f = fixture_begin("Mul", 13);

    (void)state;
    add_input(&f, PARE_F32, 2, DIMS(2, 3), NULL);
    add_input(&f, PARE_F32, 1, DIMS(2), NULL);
    assert_int_equal(run_with_attrs(&f, NULL, 0), PARE_ESHAPE);
    assert_string_equal(f.err.msg, "shapes (2, 3) and (2) cannot be broadcast together");
    fixture_end(&f);
}

static void test_in_place(void **state)
{
    const struct pare_op *sub = pare_find_op("", "Sub");
    struct pare_node n = { .op = sub };
    float a[5] = { 1, 2, 3, 4, 5 }, b[5] = { 5, 5, 5, 5, 5 }, one = 1;

    (void)state;
    sub->map2(&n, a, 1, b, 1, a, 5);
    assert_memory_equal(a, ((float[]){ -4, -3, -2, -1, 0 }), sizeof(a));
    sub->map2(&n, a, 1, b, 1, b, 5);
    assert_memory_equal(b, ((float[]){ -9, -8, -7, -6, -5 }), sizeof(b));
    sub->map2(&n, &one, 0, b, 1, b, 5);
    assert_memory_equal(b, ((float[]){ 10, 9, 8, 7, 6 }), sizeof(b));
    sub->map2(&n, b, 1, &one, 0, b, 5);
    assert_memory_equal(b, ((float[]){ 9, 8, 7, 6, 5 }), sizeof(b));
    sub->map2(&n, &one, 0, &one, 0, b, 2);
    assert_memory_equal(b, ((float[]){ 0, 0, 7, 6, 5 }), sizeof(b));
}

static void test_any_number_of_inputs(void **state)
{
    static const float a[] = { 1, 2, 3 }, b[] = { 10, 20 }, c = 100;
    struct fixture f = fixture_begin("Sum", 13);

    (void)state;
    add_input(&f, PARE_F32, 1, DIMS(3), a);
    add_input(&f, PARE_F32, 2, DIMS(2, 1), b);
    add_input(&f, PARE_F32, 0, NULL, &c);
    expect_floats(run_op(&f), 6, (float[]){ 111, 112, 113, 121, 122, 123 });
    fixture_end(&f);
    f = fixture_begin("Mean", 13);
    add_input(&f, PARE_F32, 1, DIMS(3), a);
    add_input(&f, PARE_F32, 2, DIMS(2, 1), b);
    add_input(&f, PARE_F32, 0, NULL, &c);
    expect_floats(run_op(&f), 6, (float[]){ 37, 112 / 3.f, 113 / 3.f, 121 / 3.f, 122 / 3.f, 41 });
    fixture_end(&f);
    f = fixture_begin("Max", 13);
    add_input(&f, PARE_F32, 1, DIMS(3), a);
    expect_floats(run_op(&f), 3, a);
    fixture_end(&f);
}

/* ---- integers --------------------------------------------------------------------- */

static void test_integer_division(void **state)
{
    static const int8_t a8[] = { 7, -7, 7, -7, -128, 5, -128 }, b8[] = { 2, 2, -2, -2, -1, 0, 0 };
    static const int32_t a32[] = { INT32_MIN, INT32_MIN, -1 }, b32[] = { -1, 0, INT32_MIN };
    static const int64_t a64[] = { INT64_MIN, 9, -9 }, b64[] = { -1, 0, 4 };
    static const uint64_t au[] = { UINT64_MAX, 5 }, bu[] = { 2, 0 };
    struct fixture f = fixture_begin("Div", 14);

    (void)state;
    add_input(&f, PARE_I8, 1, DIMS(7), a8);
    add_input(&f, PARE_I8, 1, DIMS(7), b8);
    expect_bytes(run_op(&f), 7, (int8_t[]){ 3, -3, -3, 3, -128, 0, 0 });
    fixture_end(&f);
    f = fixture_begin("Div", 14);
    add_input(&f, PARE_I32, 1, DIMS(3), a32);
    add_input(&f, PARE_I32, 1, DIMS(3), b32);
    expect_bytes(run_op(&f), 12, (int32_t[]){ INT32_MIN, 0, 0 });
    fixture_end(&f);
    f = fixture_begin("Div", 14);
    add_input(&f, PARE_I64, 1, DIMS(3), a64);
    add_input(&f, PARE_I64, 1, DIMS(3), b64);
    expect_bytes(run_op(&f), 24, (int64_t[]){ INT64_MIN, 0, -2 });
    fixture_end(&f);
    f = fixture_begin("Div", 14);
    add_input(&f, PARE_U64, 1, DIMS(2), au);
    add_input(&f, PARE_U64, 1, DIMS(2), bu);
    expect_bytes(run_op(&f), 16, (uint64_t[]){ INT64_MAX, 0 });
    fixture_end(&f);
}

static void test_integer_remainders(void **state)
{
    static const int64_t a[] = { 7, -7, 7, -7, INT64_MIN, 3 }, b[] = { 3, 3, -3, -3, -1, 0 };
    struct pare_setting c = int_attr("fmod", 1);
    struct fixture f = fixture_begin("Mod", 13);

    (void)state;
    add_input(&f, PARE_I64, 1, DIMS(6), a);
    add_input(&f, PARE_I64, 1, DIMS(6), b);
    expect_bytes(run_op(&f), 48, (int64_t[]){ 1, 2, -2, -1, 0, 0 });
    fixture_end(&f);
    f = fixture_begin("Mod", 13);
    add_input(&f, PARE_I64, 1, DIMS(6), a);
    add_input(&f, PARE_I64, 1, DIMS(6), b);
    assert_int_equal(run_with_attrs(&f, &c, 1), 0);
    expect_bytes(&f.out[0]->t, 48, (int64_t[]){ 1, -1, 1, -1, 0, 0 });
    fixture_end(&f);
}

static void test_integer_overflow_wraps(void **state)
{
    static const int32_t big[] = { INT32_MAX, INT32_MIN }, two[] = { 2, -1 };
    static const uint16_t wide[] = { 65535 };
    static const int64_t lowest = INT64_MIN;
    struct fixture f = fixture_begin("Mul", 14);

    (void)state;
    add_input(&f, PARE_I32, 1, DIMS(2), big);
    add_input(&f, PARE_I32, 1, DIMS(2), two);
    expect_bytes(run_op(&f), 8, (int32_t[]){ -2, INT32_MIN });
    fixture_end(&f);
    f = fixture_begin("Mul", 14);
    add_input(&f, PARE_U16, 1, DIMS(1), wide);
    add_input(&f, PARE_U16, 1, DIMS(1), wide);
    expect_bytes(run_op(&f), 2, (uint16_t[]){ 1 });
    fixture_end(&f);
    f = fixture_begin("Abs", 13);
    add_input(&f, PARE_I64, 0, NULL, &lowest);
    expect_bytes(run_op(&f), 8, &lowest);
    fixture_end(&f);
    f = fixture_begin("Neg", 13);
    add_input(&f, PARE_I64, 0, NULL, &lowest);
    expect_bytes(run_op(&f), 8, &lowest);
    fixture_end(&f);
}

static void test_powers_of_mixed_types(void **state)
{
    static const int64_t a[] = { 2, -3, 0, -1, 10, 7 }, b[] = { 10, 3, 0, -3, -1, 40 };
    static const float e[] = { 0.5f, 2 };
    static const int32_t base[] = { 16, -3 };
    static const bool no = true;
    struct fixture f = fixture_begin("Pow", 15);

    (void)state;
    add_input(&f, PARE_I64, 1, DIMS(6), a);
    add_input(&f, PARE_I64, 1, DIMS(6), b);
    expect_bytes(run_op(&f), 48,
                 (int64_t[]){ 1024, -27, 1, -1, 0, -6212923193149656639 }); /* 7^40 mod 2^64 */
    fixture_end(&f);
    f = fixture_begin("Pow", 15);
    add_input(&f, PARE_I32, 1, DIMS(2), base);
    add_input(&f, PARE_F32, 1, DIMS(2), e);
    expect_bytes(run_op(&f), 8, (int32_t[]){ 4, 9 });
    fixture_end(&f);
    f = fixture_begin("Pow", 15);
    add_input(&f, PARE_F32, 1, DIMS(2), e);
    add_input(&f, PARE_I32, 1, DIMS(2), base);
    expect_floats(run_op(&f), 2, (float[]){ 0x1p-16f, 0.125f });
    fixture_end(&f);
    f = fixture_begin("Pow", 15);
    add_input(&f, PARE_F32, 1, DIMS(2), e);
    add_input(&f, PARE_BOOL, 0, NULL, &no);
    assert_int_equal(run_with_attrs(&f, NULL, 0), PARE_EUNSUPPORTED);
    fixture_end(&f);
}

static void test_shifts(void **state)
{
    static const uint8_t a[] = { 255, 255, 255 }, b[] = { 1, 8, 200 };
    struct pare_setting left = { .name = "direction", .type = PARE_OPT_STR, .str = "LEFT" };
    struct fixture f = fixture_begin("BitShift", 11);

    (void)state;
    add_input(&f, PARE_U8, 1, DIMS(3), a);
    add_input(&f, PARE_U8, 1, DIMS(3), b);
    assert_int_equal(run_with_attrs(&f, &left, 1), 0);
    expect_bytes(&f.out[0]->t, 3, (uint8_t[]){ 254, 0, 0 });
    assert_int_not_equal(run_with_attrs(&f, NULL, 0), 0); /* the direction is required */
    fixture_end(&f);
}

/* ---- NaN and bounds --------------------------------------------------------------- */

static void test_nan_propagates(void **state)
{
    static const float x[] = { NAN, -1, 0, 2, -INFINITY, INFINITY }, y[] = { 1, NAN, NAN, 1, 1, 1 };
    struct fixture f = fixture_begin("Relu", 14);

    (void)state;
    add_input(&f, PARE_F32, 1, DIMS(6), x);
    expect_floats(run_op(&f), 6, (float[]){ NAN, 0, 0, 2, 0, INFINITY });
    fixture_end(&f);
    f = fixture_begin("Sign", 13);
    add_input(&f, PARE_F32, 1, DIMS(6), x);
    expect_floats(run_op(&f), 6, (float[]){ NAN, -1, 0, 1, -1, 1 });
    fixture_end(&f);
    f = fixture_begin("Max", 13);
    add_input(&f, PARE_F32, 1, DIMS(6), x);
    add_input(&f, PARE_F32, 1, DIMS(6), y);
    expect_floats(run_op(&f), 6, (float[]){ NAN, NAN, NAN, 2, 1, INFINITY });
    fixture_end(&f);
    f = fixture_begin("Min", 13);
    add_input(&f, PARE_F32, 1, DIMS(6), x);
    add_input(&f, PARE_F32, 1, DIMS(6), y);
    expect_floats(run_op(&f), 6, (float[]){ NAN, NAN, NAN, 1, -INFINITY, 1 });
    fixture_end(&f);
}

static void test_clip(void **state)
{
    static const float x[] = { NAN, -5, 0, 5, -INFINITY }, lo = -1, hi = 1;
    static const int8_t i[] = { -100, 0, 100 }, low = -3;
    struct pare_setting old[] = { float_attr("min", -2), float_attr("max", INFINITY) };
    struct fixture f = fixture_begin("Clip", 13);

    (void)state;
    add_input(&f, PARE_F32, 1, DIMS(5), x);
    add_input(&f, PARE_F32, 0, NULL, &lo);
    add_input(&f, PARE_F32, 1, DIMS(1), &hi);
    expect_floats(run_op(&f), 5, (float[]){ NAN, -1, 0, 1, -1 });
    fixture_end(&f);
    f = fixture_begin("Clip", 13);
    add_input(&f, PARE_F32, 1, DIMS(5), x);
    add_absent_input(&f);
    add_input(&f, PARE_F32, 0, NULL, &hi);
    expect_floats(run_op(&f), 5, (float[]){ NAN, -5, 0, 1, -INFINITY });
    fixture_end(&f);
    f = fixture_begin("Clip", 12);
    add_input(&f, PARE_I8, 1, DIMS(3), i);
    add_input(&f, PARE_I8, 0, NULL, &low);
    expect_bytes(run_op(&f), 3, (int8_t[]){ -3, 0, 100 });
    fixture_end(&f);
    f = fixture_begin("Clip", 7);
    add_input(&f, PARE_F32, 1, DIMS(5), x);
    assert_int_equal(run_with_attrs(&f, old, 2), 0);
    expect_floats(&f.out[0]->t, 5, (float[]){ NAN, -2, 0, 5, -2 });
    fixture_end(&f);
    f = fixture_begin("Clip", 13);
    add_input(&f, PARE_F32, 1, DIMS(5), x);
    add_input(&f, PARE_F32, 1, DIMS(5), x);
    assert_int_equal(run_with_attrs(&f, NULL, 0), PARE_ESHAPE);
    fixture_end(&f);
}

static void test_prelu_slopes(void **state)
{
    static const float x[] = { -1, 1, -1, -1, 1, -1, -1, -1 }, s[] = { 2, 3 };
    struct fixture f = fixture_begin("PRelu", 6); /* a slope for each channel */

    (void)state;
    add_input(&f, PARE_F32, 3, DIMS(2, 2, 2), x);
    add_input(&f, PARE_F32, 1, DIMS(2), s);
    expect_floats(run_op(&f), 8, (float[]){ -2, 1, -3, -3, 1, -2, -3, -3 });
    fixture_end(&f);
    f = fixture_begin("PRelu", 16); /* a slope for each column */
    add_input(&f, PARE_F32, 3, DIMS(2, 2, 2), x);
    add_input(&f, PARE_F32, 1, DIMS(2), s);
    expect_floats(run_op(&f), 8, (float[]){ -2, 1, -2, -3, 1, -3, -2, -3 });
    fixture_end(&f);
    f = fixture_begin("PRelu", 16);
    add_input(&f, PARE_F32, 1, DIMS(1), x);
    add_input(&f, PARE_F32, 1, DIMS(2), s);
    assert_int_equal(run_with_attrs(&f, NULL, 0), PARE_ESHAPE);
    fixture_end(&f);
}

static void test_float16(void **state)
{
    static const uint16_t a[] = { 0x3c00, 0xc000 }, b[] = { 0x4000, 0x4000 }; /* 1 -2, 2 2 */
    struct fixture f = fixture_begin("Div", 14);

    (void)state;
    add_input(&f, PARE_F16, 1, DIMS(2), a);
    add_input(&f, PARE_F16, 1, DIMS(2), b);
    expect_bytes(run_op(&f), 4, (uint16_t[]){ 0x3800, 0xbc00 });
    fixture_end(&f);
    f = fixture_begin("Less", 13);
    add_input(&f, PARE_F16, 1, DIMS(2), a);
    add_input(&f, PARE_F16, 0, NULL, b);
    expect_bytes(run_op(&f), 2, (uint8_t[]){ 1, 1 });
    fixture_end(&f);
}

/* For every operator of one input with map() and a float64 loop, both agree. */
static void test_float32_and_float64_agree(void **state)
{
    enum { N = 41 };
    float x[N];
    double d[N];
    int seen = 0;

    (void)state;
    for (int i = 0; i < N; i++)
        d[i] = (double)(x[i] = (float)(i - N / 2) * 0.17f);
    for (const struct pare_op *const *op = pare_ops; *op; op++) {
        struct fixture f, g;

        if (!(*op)->map || strcmp((*op)->in, "T") || !((*op)->types & PARE_T(PARE_F64)))
            continue;
        f = fixture_begin_op(*op, (*op)->since), g = fixture_begin_op(*op, (*op)->since);
        add_input(&f, PARE_F32, 1, DIMS(N), x);
        add_input(&g, PARE_F64, 1, DIMS(N), d);
        run_op(&f), run_op(&g);
        for (int i = 0; i < N; i++) {
            double a = pare_get(&f.out[0]->t, i), b = pare_get(&g.out[0]->t, i);

            if (isnan(a) ? !isnan(b) : fabs(a - b) > 2e-6 * fabs(b) && a != b)
                fail_msg("%s(%g) is %g in float32, %g in float64", (*op)->type, d[i], a, b);
        }
        fixture_end(&f), fixture_end(&g);
        seen++;
    }
    assert_true(seen > 30);
}

static void expect_near_and_end(struct fixture *f, const float *want)
{
    for (int64_t i = 0; i < pare_numel(&f->out[0]->t); i++)
        assert_true(fabsf(pare_f32(&f->out[0]->t)[i] - want[i]) < 1e-6f);
    fixture_end(f);
}

/* Operators without official ONNX test cases. */
static void test_recent_activations(void **state)
{
    static const float x[] = { 1, -1 }, bias[] = { -1, 1 };
    struct pare_setting by_tanh = { .name = "approximate", .type = PARE_OPT_STR, .str = "tanh" };
    struct pare_setting two = float_attr("alpha", 2);
    struct fixture f = fixture_begin("Gelu", 20);

    (void)state;
    add_input(&f, PARE_F32, 1, DIMS(2), x);
    run_op(&f), expect_near_and_end(&f, (float[]){ 0.8413447f, -0.1586553f });
    f = fixture_begin("Gelu", 20);
    add_input(&f, PARE_F32, 1, DIMS(2), x);
    assert_int_equal(run_with_attrs(&f, &by_tanh, 1), 0);
    expect_near_and_end(&f, (float[]){ 0.8411920f, -0.1588080f });
    f = fixture_begin("Mish", 18);
    add_input(&f, PARE_F32, 1, DIMS(2), x);
    run_op(&f), expect_near_and_end(&f, (float[]){ 0.8650984f, -0.3034015f });
    f = fixture_begin("Swish", 24);
    add_input(&f, PARE_F32, 1, DIMS(2), x);
    assert_int_equal(run_with_attrs(&f, &two, 1), 0);
    expect_near_and_end(&f, (float[]){ 0.8807971f, -0.1192029f });
    f = fixture_begin_op(pare_find_op("com.microsoft", "QuickGelu"), 1);
    add_input(&f, PARE_F32, 1, DIMS(2), x);
    run_op(&f), expect_near_and_end(&f, (float[]){ 0.8457958f, -0.1542042f });
    f = fixture_begin_op(pare_find_op("com.microsoft", "Gelu"), 1);
    add_input(&f, PARE_F32, 1, DIMS(2), x);
    run_op(&f), expect_near_and_end(&f, (float[]){ 0.8413447f, -0.1586553f });
    f = fixture_begin_op(pare_find_op("com.microsoft", "FastGelu"), 1);
    add_input(&f, PARE_F32, 2, DIMS(1, 2), x);
    add_input(&f, PARE_F32, 1, DIMS(2), bias);
    run_op(&f), expect_near_and_end(&f, (float[]){ 0, 0 });
}

static void test_bitwise_operators(void **state)
{
    static const int8_t a[] = { -1, 12 }, b[] = { 5, 10 };
    static const char *const type[] = { "BitwiseAnd", "BitwiseOr", "BitwiseXor" };
    static const int8_t want[][2] = { { 5, 8 }, { -1, 14 }, { -6, 6 } };
    struct fixture f = fixture_begin("BitwiseNot", 18);

    (void)state;
    add_input(&f, PARE_I8, 1, DIMS(2), a);
    expect_bytes(run_op(&f), 2, (int8_t[]){ 0, -13 });
    fixture_end(&f);
    for (int k = 0; k < 3; k++) {
        f = fixture_begin(type[k], 18);
        add_input(&f, PARE_I8, 1, DIMS(2), a);
        add_input(&f, PARE_I8, 1, DIMS(2), b);
        expect_bytes(run_op(&f), 2, want[k]);
        fixture_end(&f);
    }
}

/* ---- Where and Equal ---------------------------------------------------------------- */

static void test_where_of_three_shapes(void **state)
{
    static const uint8_t c[] = { 1, 0 };
    static const float a[] = { 1, 2, 3 }, b[] = { 10, 20 };
    static const struct pare_str s = { "yes", 3 }, t = { "no", 2 };
    const struct pare_str *y;
    struct fixture f = fixture_begin("Where", 16);

    (void)state;
    add_input(&f, PARE_BOOL, 2, DIMS(2, 1), c);
    add_input(&f, PARE_F32, 1, DIMS(3), a);
    add_input(&f, PARE_F32, 3, DIMS(2, 1, 1), b);
    expect_floats(run_op(&f), 12, (float[]){ 1, 2, 3, 10, 10, 10, 1, 2, 3, 20, 20, 20 });
    assert_int_equal(f.out[0]->t.rank, 3);
    fixture_end(&f);
    f = fixture_begin("Where", 16);
    add_input(&f, PARE_BOOL, 1, DIMS(2), c);
    add_input(&f, PARE_STR, 0, NULL, &s);
    add_input(&f, PARE_STR, 0, NULL, &t);
    y = run_op(&f)->data;
    assert_true(y[0].s == s.s && y[1].s == t.s && y[1].len == 2);
    fixture_end(&f);
}

static void test_equal_strings(void **state)
{
    static const struct pare_str a[] = { { "ab", 2 }, { "ab", 1 }, { NULL, 0 } }, b = { "abc", 2 };
    struct fixture f = fixture_begin("Equal", 19);

    (void)state;
    add_input(&f, PARE_STR, 1, DIMS(3), a);
    add_input(&f, PARE_STR, 0, NULL, &b);
    expect_bytes(run_op(&f), 3, (uint8_t[]){ 1, 0, 0 });
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcasting_of_typical_shapes),
        cmocka_unit_test(test_broadcasting_of_random_shapes),
        cmocka_unit_test(test_shapes_that_cannot_be_broadcast),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_any_number_of_inputs),
        cmocka_unit_test(test_integer_division),
        cmocka_unit_test(test_integer_remainders),
        cmocka_unit_test(test_integer_overflow_wraps),
        cmocka_unit_test(test_powers_of_mixed_types),
        cmocka_unit_test(test_shifts),
        cmocka_unit_test(test_nan_propagates),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_prelu_slopes),
        cmocka_unit_test(test_float16),
        cmocka_unit_test(test_where_of_three_shapes),
        cmocka_unit_test(test_equal_strings),
        cmocka_unit_test(test_float32_and_float64_agree),
        cmocka_unit_test(test_recent_activations),
        cmocka_unit_test(test_bitwise_operators),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
