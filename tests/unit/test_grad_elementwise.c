/* test_grad_elementwise.c - gradients of elementwise operators: against finite differences where
 * they are smooth, against PyTorch's conventions where they are not. */
#include "grad.h"

/* ---- one input ---------------------------------------------------------------------- */

/* The input is uniform in [lo, hi).  If lo equals hi, it has distinct values around zero: odd
 * multiples of 0.05 up to 1.75, so that kinks at even multiples are far enough. */
struct unary {
    const char *type;
    int version;
    double lo, hi;
    const char *attr[4];
};

static const struct unary unary[] = {
    { "Relu", 14, 0, 0, { 0 } },
    { "LeakyRelu", 16, 0, 0, { "alpha", "0.1" } },
    { "Elu", 6, 0, 0, { "alpha", "2" } },
    { "Selu", 6, 0, 0, { 0 } },
    { "Selu", 6, 0, 0, { "alpha", "0.5", "gamma", "3" } },
    { "Celu", 12, 0, 0, { "alpha", "0.5" } },
    { "Sigmoid", 13, -4, 4, { 0 } },
    { "HardSigmoid", 6, 0, 0, { "alpha", "0.5", "beta", "0.6" } },
    { "HardSwish", 14, -2.9, 2.9, { 0 } },
    { "HardSwish", 14, 3.1, 5, { 0 } },
    { "HardSwish", 14, -5, -3.1, { 0 } },
    { "Tanh", 13, -3, 3, { 0 } },
    { "Softplus", 1, -4, 4, { 0 } },
    { "Softsign", 1, 0, 0, { 0 } },
    { "Gelu", 20, -4, 4, { "approximate", "none" } },
    { "Gelu", 20, -4, 4, { "approximate", "tanh" } },
    { "ms.Gelu", 1, -4, 4, { 0 } },
    { "ms.FastGelu", 1, -4, 4, { 0 } },
    { "ms.QuickGelu", 1, -4, 4, { "alpha", "1.3" } },
    { "Swish", 24, -4, 4, { "alpha", "0.7" } },
    { "Mish", 18, -4, 4, { 0 } },
    { "ThresholdedRelu", 10, 0, 0, { "alpha", "0.6" } },
    { "Shrink", 9, 0, 0, { "lambd", "0.6", "bias", "0.2" } },
    { "Erf", 13, -2, 2, { 0 } },
    { "Abs", 13, 0, 0, { 0 } },
    { "Neg", 13, -2, 2, { 0 } },
    { "Exp", 13, -2, 2, { 0 } },
    { "Log", 13, 0.5, 3, { 0 } },
    { "Sqrt", 13, 0.5, 3, { 0 } },
    { "Reciprocal", 13, 0.5, 3, { 0 } },
    { "Reciprocal", 13, -3, -0.5, { 0 } },
    { "Sin", 7, -3, 3, { 0 } },
    { "Cos", 7, -3, 3, { 0 } },
    { "Tan", 7, -1, 1, { 0 } },
    { "Asin", 7, -0.8, 0.8, { 0 } },
    { "Acos", 7, -0.8, 0.8, { 0 } },
    { "Atan", 7, -3, 3, { 0 } },
    { "Sinh", 9, -2, 2, { 0 } },
    { "Cosh", 9, -2, 2, { 0 } },
    { "Asinh", 9, -3, 3, { 0 } },
    { "Acosh", 9, 1.3, 4, { 0 } },
    { "Atanh", 9, -0.8, 0.8, { 0 } },
    { "Ceil", 13, 0.1, 0.9, { 0 } },
    { "Floor", 13, 0.1, 0.9, { 0 } },
    { "Round", 11, -0.4, 0.4, { 0 } },
    { "Sign", 13, 0, 0, { 0 } },
    { "Identity", 16, -1, 1, { 0 } },
    { "Cast", 19, -1, 1, { "to", "1" } },
    { "Clip", 6, 0, 0, { "min", "-0.6", "max", "0.8" } },
    { "Max", 13, -1, 1, { 0 } },
    { "Min", 13, -1, 1, { 0 } },
    { "Mean", 13, -1, 1, { 0 } },
    { "Sum", 13, -1, 1, { 0 } },
};

static void test_gradients_of_one_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(unary) / sizeof(*unary); i++) {
        const struct unary *u = &unary[i];
        struct one_op f;

        op_begin(&f, u->type, u->version);
        for (int k = 0; k < 4 && u->attr[k]; k += 2)
            op_attr(&f, u->attr[k], u->attr[k + 1]);
        if (u->lo < u->hi)
            grad_in(&f, "5,7", u->lo, u->hi);
        else
            grad_in_distinct(&f, "5,7", 0.1);
        grad_check(&f);
    }
}

/* Computes the gradients of all inputs, for an output gradient of 1. */
static void compute_gradients(struct one_op *f)
{
    struct pare_ctx c = { .scratch = f->scratch, .results = f->arena, .threads = 1 };

    if (op_run(f))
        fail_msg("%s: %s", f->node.type, f->err.msg);
    for (int i = 0; i < f->node.n_in; i++)
        assert_int_equal(pare_tensor_new(f->arena, &f->in[i]->grad, PARE_F32, f->in[i]->t.rank,
                                         f->in[i]->t.dim, &f->err),
                         0);
    assert_int_equal(pare_tensor_new(f->arena, &f->out[0]->grad, PARE_F32, f->out[0]->t.rank,
                                     f->out[0]->t.dim, &f->err),
                     0);
    for (int64_t i = 0; i < pare_numel(&f->out[0]->t); i++)
        pare_f32_mut(&f->out[0]->grad)[i] = 1;
    assert_int_equal(f->node.op->backward(&f->node, &c, &f->err), 0);
}

static void expect_gradient(struct one_op *f, int input, const double *want)
{
    for (int64_t i = 0; i < pare_numel(&f->in[input]->t); i++) {
        double got = (double)pare_f32(&f->in[input]->grad)[i];

        if (!(fabs(got - want[i]) < 1e-5))
            fail_msg("%s: input %d, element %lld: gradient %g, expected %g", f->node.type, input,
                     (long long)i, got, want[i]);
    }
}

struct kink {
    const char *type;
    int version;
    const char *attr[4];
    double x[2], want[2];
};

/* Gradients of PyTorch 1.13 at these points. */
static const struct kink kinks[] = {
    { "Relu", 14, { 0 }, { 0, -0.0 }, { 0, 0 } },
    { "Abs", 13, { 0 }, { 0, -0.0 }, { 0, 0 } },
    { "LeakyRelu", 16, { "alpha", "0.1" }, { 0, -0.0 }, { 0.1, 0.1 } },
    { "Elu", 6, { "alpha", "2" }, { 0, -0.0 }, { 2, 2 } },
    { "Selu", 6, { 0 }, { 0, -0.0 }, { 1.7580993, 1.7580993 } },
    { "Celu", 12, { "alpha", "2" }, { 0, -0.0 }, { 1, 1 } },
    { "HardSigmoid", 6, { "alpha", "0.25" }, { -2, 2 }, { 0, 0 } },
    { "HardSwish", 14, { 0 }, { -3, 3 }, { -0.5, 1.5 } },
    { "Clip", 6, { "min", "-1", "max", "2" }, { -1, 2 }, { 1, 1 } },
    { "Clip", 6, { "min", "-1", "max", "2" }, { -1.01, 2.01 }, { 0, 0 } },
    { "ThresholdedRelu", 10, { "alpha", "1" }, { 1, 1.01 }, { 0, 1 } },
    { "Shrink", 9, { "lambd", "0.5" }, { -0.5, 0.5 }, { 0, 0 } },
    { "Sign", 13, { 0 }, { 0, 1 }, { 0, 0 } },
    /* large inputs: no overflow in a finite gradient */
    { "Sigmoid", 13, { 0 }, { -200, 200 }, { 0, 0 } },
    { "Softplus", 1, { 0 }, { -200, 200 }, { 0, 1 } },
    { "Gelu", 20, { 0 }, { -1e30, 1e30 }, { 0, 1 } },
    { "Gelu", 20, { "approximate", "tanh" }, { -1e30, 1e30 }, { 0, 1 } },
    { "Mish", 18, { 0 }, { -200, 200 }, { 0, 1 } },
    { "Swish", 24, { 0 }, { -200, 200 }, { 0, 1 } },
    { "Erf", 13, { 0 }, { -1e30, 1e30 }, { 0, 0 } },
    { "Softsign", 1, { 0 }, { -1e30, 1e30 }, { 0, 0 } },
    { "Elu", 6, { 0 }, { -200, 200 }, { 0, 1 } },
};

static void test_gradients_at_kinks_as_in_pytorch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinks) / sizeof(*kinks); i++) {
        const struct kink *k = &kinks[i];
        struct one_op f;

        op_begin(&f, k->type, k->version);
        for (int a = 0; a < 4 && k->attr[a]; a += 2)
            op_attr(&f, k->attr[a], k->attr[a + 1]);
        op_in(&f, PARE_F32, "2", k->x);
        compute_gradients(&f);
        expect_gradient(&f, 0, k->want);
        op_end(&f);
    }
}

/* Where the derivative is 0, an infinite output gradient gives 0, not NaN. */
static void test_zero_derivatives_stop_infinity(void **state)
{
    static const char *const types[] = { "Relu", "ThresholdedRelu", "Shrink", "Clip" };

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct pare_ctx c = { 0 };
        struct one_op f;

        op_begin(&f, types[i], 10);
        op_in(&f, PARE_F32, "1", LIST(-0.25));
        if (i == 3)
            op_attr(&f, "min", "0");
        compute_gradients(&f);
        pare_f32_mut(&f.in[0]->grad)[0] = 0;
        pare_f32_mut(&f.out[0]->grad)[0] = INFINITY;
        assert_int_equal(f.node.op->backward(&f.node, &c, &f.err), 0);
        expect_gradient(&f, 0, LIST(0));
        op_end(&f);
    }
}

/* ---- two inputs ---------------------------------------------------------------------- */

/* b in [lo, hi); a in [-1, 1), or [0.5, 2) when positive. */
struct binary {
    const char *type;
    int version;
    bool positive;
    double lo, hi;
    const char *attr[2];
};

static const struct binary binary[] = {
    { "Add", 14, false, -1, 1, { 0 } },         { "Sub", 14, false, -1, 1, { 0 } },
    { "Mul", 14, false, -1, 1, { 0 } },         { "Div", 14, false, 0.5, 2, { 0 } },
    { "Div", 14, false, -2, -0.5, { 0 } },      { "Pow", 15, true, -2, 2, { 0 } },
    { "Mean", 13, false, -1, 1, { 0 } },        { "Sum", 13, false, -1, 1, { 0 } },
    { "Mod", 13, true, 4, 5, { "fmod", "1" } }, /* no jump in this range */
    { "Max", 13, true, -1, 0, { 0 } },          { "Min", 13, true, -1, 0, { 0 } },
    { "Max", 13, true, 2.5, 3, { 0 } },         { "Min", 13, true, 2.5, 3, { 0 } },
};

static const char *const shapes[][2] = {
    { "2,3,4", "2,3,4" }, { "2,3,4", "4" },     { "4", "2,3,4" },     { "2,3,4", "3,1" },
    { "3,1", "2,3,4" },   { "2,3,4", "" },      { "", "2,3,4" },      { "2,1,4", "3,1" },
    { "3,1", "2,1,4" },   { "2,3,4", "2,1,1" }, { "", "" },           { "2,0,4", "4" },
    { "1,1", "1" },       { "2,3,4", "3,4" },   { "1,3,4", "2,1,1" },
};

static void begin_binary(struct one_op *f, const struct binary *b)
{
    op_begin(f, b->type, b->version);
    if (b->attr[0])
        op_attr(f, b->attr[0], b->attr[1]);
}

static void test_gradients_of_two_inputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(binary) / sizeof(*binary); i++)
        for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
            const struct binary *b = &binary[i];
            struct one_op f;

            begin_binary(&f, b);
            grad_in(&f, shapes[s][0], b->positive ? 0.5 : -1, b->positive ? 2 : 1);
            grad_in(&f, shapes[s][1], b->lo, b->hi);
            grad_check(&f);
        }
}

/* Both inputs are the same value. */
static void test_gradients_of_one_value_twice(void **state)
{
    static const char *const types[] = { "Add",  "Sub", "Mul", "Div", "Pow",
                                         "Mean", "Sum", "Max", "Min" };

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct one_op f;

        op_begin(&f, types[i], 15);
        grad_in(&f, "3,4", 0.5, 2);
        f.in[1] = f.in[0];
        f.node.n_in = 2;
        grad_check(&f);
    }
}

/* Rows longer than the blocks in which gradients are computed. */
static void test_gradients_of_long_rows(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Mul", 14);
    grad_in(&f, "2,600", -1, 1);
    grad_in(&f, "2,1", -1, 1);
    grad_check(&f);
    op_begin(&f, "Div", 14);
    grad_in(&f, "2,1", -1, 1);
    grad_in(&f, "600", 0.5, 2);
    grad_check(&f);
    op_begin(&f, "ms.FastGelu", 1);
    grad_in(&f, "2,600", -2, 2);
    grad_in(&f, "600", -1, 1);
    grad_check(&f);
}

static void test_gradients_of_prelu(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "PRelu", 16);
    grad_in_distinct(&f, "2,3,4", 0.1);
    grad_in(&f, "3,1", 0.1, 0.5);
    grad_check(&f);
    op_begin(&f, "PRelu", 16);
    grad_in_distinct(&f, "2,3", 0.1);
    grad_in(&f, "2,3", 0.1, 0.5);
    grad_check(&f);
    op_begin(&f, "PRelu", 6); /* before opset 7 a list of slopes belongs to axis 1 */
    grad_in_distinct(&f, "2,3,4", 0.1);
    grad_in(&f, "3", 0.1, 0.5);
    grad_check(&f);
    op_begin(&f, "PRelu", 16);
    op_in(&f, PARE_F32, "2", LIST(0, -2));
    op_in(&f, PARE_F32, "1", LIST(0.25));
    compute_gradients(&f);
    expect_gradient(&f, 0, LIST(0.25, 0.25));
    expect_gradient(&f, 1, LIST(-2));
    op_end(&f);
}

static void test_gradients_of_pow(void **state)
{
    struct one_op f;

    (void)state;
    for (double e = -2; e <= 4; e++) {
        op_begin(&f, "Pow", 15);
        grad_in(&f, "3,4", 0.5, 2);
        op_in(&f, PARE_F32, "", &e);
        grad_check(&f);
        op_begin(&f, "Pow", 15); /* negative base, integer exponent */
        grad_in(&f, "3,4", -2, -0.5);
        op_in(&f, PARE_I64, "1", &e);
        grad_check(&f);
    }
    op_begin(&f, "Pow", 15);
    op_in(&f, PARE_F32, "5", LIST(0, 0, 2, -2, 3));
    op_in(&f, PARE_F32, "5", LIST(0, 2, 0, 2, 1.5));
    compute_gradients(&f);
    expect_gradient(&f, 0, LIST(0, 0, 0, -4, 2.5980762));
    expect_gradient(&f, 1, LIST(0, 0, 0.6931472, 0, 5.7085569));
    op_end(&f);
}

static void test_gradients_of_mod(void **state)
{
    for (int fmod = 0; fmod < 2; fmod++) {
        struct one_op f;

        (void)state;
        op_begin(&f, "Mod", 13);
        op_attr(&f, "fmod", fmod ? "1" : "0");
        op_in(&f, PARE_F32, "4", LIST(5.3, -5.3, 5.3, -5.3));
        op_in(&f, PARE_F32, "4", LIST(2, 2, -2, -2));
        compute_gradients(&f);
        expect_gradient(&f, 0, LIST(1, 1, 1, 1));
        expect_gradient(&f, 1, fmod ? LIST(-2, 2, 2, -2) : LIST(-2, 3, 3, -2));
        op_end(&f);
        op_begin(&f, "Mod", 13);
        op_attr(&f, "fmod", fmod ? "1" : "0");
        op_in(&f, PARE_F32, "2,2", LIST(5.3, -5.3, 1.7, -0.3));
        op_in(&f, PARE_F32, "2", LIST(2.1, -1.6));
        grad_check(&f);
    }
}

/* ---- any number of inputs --------------------------------------------------------------- */

static void test_gradients_of_many_inputs(void **state)
{
    static const char *const types[] = { "Mean", "Sum", "Max", "Min" };

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct one_op f;

        op_begin(&f, types[i], 13);
        op_in(&f, PARE_F32, "2,3", LIST(0.1, 0.9, 0.3, 0.8, 0.5, 0.2));
        op_in(&f, PARE_F32, "3", LIST(0.4, 0.7, 0.6));
        op_in(&f, PARE_F32, "2,1", LIST(0.45, 0.65));
        grad_check(&f);
    }
}

static void test_equal_maxima_share_the_gradient(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Max", 13);
    op_in(&f, PARE_F32, "3", LIST(1, 2, 3));
    op_in(&f, PARE_F32, "3", LIST(1, 3, 2));
    compute_gradients(&f);
    expect_gradient(&f, 0, LIST(0.5, 0, 1));
    expect_gradient(&f, 1, LIST(0.5, 1, 0));
    op_end(&f);
    for (int k = 0; k < 2; k++) {
        double s = k ? -1 : 1;

        op_begin(&f, k ? "Min" : "Max", 13);
        op_in(&f, PARE_F32, "3", LIST(s * 4, s * 2, s * 3));
        op_in(&f, PARE_F32, "1", LIST(s * 4));
        op_in(&f, PARE_F32, "3", LIST(s * 4, s * 4, s * 5));
        compute_gradients(&f);
        expect_gradient(&f, 0, LIST(1.0 / 3, 0, 0));
        expect_gradient(&f, 1, LIST(1.0 / 3 + 0.5));
        expect_gradient(&f, 2, LIST(1.0 / 3, 0.5, 1));
        op_end(&f);
    }
}

static void test_gradients_of_where(void **state)
{
    static const char *const shape[][3] = {
        { "2,3", "2,3", "2,3" }, { "3", "2,1", "" },      { "2,1", "3", "2,3" },
        { "", "2,3", "3" },      { "2,700", "1", "2,1" },
    };
    double cond[1400];

    (void)state;
    for (int i = 0; i < 1400; i++)
        cond[i] = i % 3 != 1;
    for (size_t i = 0; i < sizeof(shape) / sizeof(*shape); i++) {
        struct one_op f;

        op_begin(&f, "Where", 16);
        op_in(&f, PARE_BOOL, shape[i][0], cond);
        grad_in(&f, shape[i][1], -1, 1);
        grad_in(&f, shape[i][2], -1, 1);
        grad_check(&f);
    }
}

static void test_gradients_of_clip(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Clip", 13);
    grad_in_distinct(&f, "5,7", 0.1);
    op_in(&f, PARE_F32, "", LIST(-0.6));
    op_in(&f, PARE_F32, "", LIST(0.8));
    grad_check(&f);
    op_begin(&f, "Clip", 13);
    grad_in_distinct(&f, "5,7", 0.1);
    op_in_none(&f);
    op_in(&f, PARE_F32, "", LIST(0.8));
    grad_check(&f);
    op_begin(&f, "Clip", 13); /* min > max: every result is max */
    grad_in_distinct(&f, "5,7", 0.1);
    op_in(&f, PARE_F32, "", LIST(0.8));
    op_in(&f, PARE_F32, "", LIST(-0.6));
    grad_check(&f);
}

static void test_gradients_of_cast(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "CastLike", 19);
    grad_in(&f, "3,4", -1, 1);
    grad_in(&f, "1", -1, 1);
    grad_check(&f);
    op_begin(&f, "Cast", 19); /* to float64, whose gradient is float32 */
    op_attr(&f, "to", "11");
    op_in(&f, PARE_F32, "2", LIST(1, 2));
    compute_gradients(&f);
    expect_gradient(&f, 0, LIST(1, 1));
    op_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_one_input),
        cmocka_unit_test(test_gradients_at_kinks_as_in_pytorch),
        cmocka_unit_test(test_zero_derivatives_stop_infinity),
        cmocka_unit_test(test_gradients_of_two_inputs),
        cmocka_unit_test(test_gradients_of_one_value_twice),
        cmocka_unit_test(test_gradients_of_long_rows),
        cmocka_unit_test(test_gradients_of_prelu),
        cmocka_unit_test(test_gradients_of_pow),
        cmocka_unit_test(test_gradients_of_mod),
        cmocka_unit_test(test_gradients_of_many_inputs),
        cmocka_unit_test(test_equal_maxima_share_the_gradient),
        cmocka_unit_test(test_gradients_of_where),
        cmocka_unit_test(test_gradients_of_clip),
        cmocka_unit_test(test_gradients_of_cast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
