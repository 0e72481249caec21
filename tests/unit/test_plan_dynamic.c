/* test_plan_dynamic.c - plans with data-dependent shapes and branches; errors for wrong inputs.
 *
 * Every model runs several times in one plan, with data that gives different sizes.
 */
#include "make_model.h"

#include "base/arena.h"
#include "plan/plan.h"

static struct pare_plan *make_plan(struct build *b, const struct pare_plan_opts *o,
                                   struct pare_model **m)
{
    struct pare_plan *p;
    struct pare_err err;

    *m = build_model(b);
    if (pare_plan_make(*m, o, &p, &err))
        fail_msg("%s", err.msg);
    return p;
}

static struct pare_tensor tensor_of(int dtype, int rank, const int64_t *dim, const double *v)
{
    struct pare_tensor t = build_tensor(dtype, rank, dim);
    struct pare_err err;

    assert_int_equal(pare_convert(t.dtype, t.data, PARE_F64, v, pare_numel(&t), &err), 0);
    return t;
}
#define V(...) ((const double[]){ __VA_ARGS__ })

static void run_plan(struct pare_plan *p, const struct pare_tensor *in, struct pare_tensor *out)
{
    struct pare_err err;

    memset(p->memory, 0xff, p->memory_bytes);
    if (pare_plan_execute(p, in, out, &err))
        fail_msg("%s", err.msg);
}

static void expect_output(const struct pare_tensor *t, const char *shape, const double *want)
{
    char buf[PARE_SHAPE_TEXT];

    assert_string_equal(pare_shape_text(t, buf, sizeof(buf)), shape);
    for (int64_t i = 0; i < pare_numel(t); i++)
        if (!(pare_get(t, i) - want[i] < 1e-5 && want[i] - pare_get(t, i) < 1e-5))
            fail_msg("element %d is %g, expected %g", (int)i, pare_get(t, i), want[i]);
}

/* Checks a plan with fast kernels and one with reference kernels. */
static void check_both_plans(struct build *b, void (*check)(struct pare_plan *p))
{
    for (int reference = 0; reference < 2; reference++) {
        struct pare_plan_opts o = { .reference = reference, .threads = 2 };
        struct pare_model *m;
        struct pare_plan *p = make_plan(b, &o, &m);

        check(p);
        pare_plan_free(p);
        pare_model_free(m);
    }
}

/* ---- sizes from data ----------------------------------------------------------------------- */

static void check_non_zero(struct pare_plan *p)
{
    struct pare_tensor out[2];
    struct pare_tensor a = tensor_of(PARE_F32, INTS(5), V(0, 2, 0, -3, 4));
    struct pare_tensor b = tensor_of(PARE_F32, INTS(5), V(1, 0, 0, 0, 0));
    struct pare_tensor none = tensor_of(PARE_F32, INTS(5), V(0, 0, 0, 0, 0));

    for (int i = 0; i < 3; i++) {
        run_plan(p, &a, out);
        expect_output(&out[0], "(3)", V(2, 0, 4));
        expect_output(&out[1], "(5)", V(1, 3, 1, -2, 5));
        run_plan(p, &b, out);
        expect_output(&out[0], "(1)", V(1));
        expect_output(&out[1], "(5)", V(2, 1, 1, 1, 1));
        run_plan(p, &none, out);
        expect_output(&out[0], "(0)", NULL);
    }
}

/* Relu of the nonzero elements; and a second output of constant shape. */
static void test_non_zero(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(5)), *at, *y;

    (void)state;
    at = build_node(&b, "NonZero", NAMES(x), NOTHING);
    at = build_node(&b, "Squeeze", NAMES(at, build_ints(&b, INTS(0))), NOTHING);
    y = build_node(&b, "Gather", NAMES(x, at), NOTHING);
    y = build_node(&b, "Relu", NAMES(y), NOTHING);
    build_output(&b, y);
    build_output(&b, build_node(&b, "Add", NAMES(x, build_scalar(&b, 1)), NOTHING));
    check_both_plans(&b, check_non_zero);
}

static void check_freed(struct pare_plan *p)
{
    struct pare_tensor out[1], x = build_tensor(PARE_F32, INTS(1 << 18));
    size_t before;

    for (int i = 0; i < 1 << 18; i++)
        pare_f32_mut(&x)[i] = 1;
    for (int k = 0; k < 2; k++) {
        before = pare_memory_used();
        run_plan(p, &x, out);
        assert_true(pare_memory_used() < before + ((size_t)4 << 20)); /* not 20 results of 1 MB */
        assert_true(pare_f32(&out[0])[1 << 17] == 1 + 20);
    }
}

/* Of a chain of results whose sizes depend on data, the plan keeps only the last one. */
static void test_results_are_freed(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(1 << 18)), *y;

    (void)state;
    y = build_node(&b, "NonZero", NAMES(x), NOTHING);
    y = build_node(&b, "Squeeze", NAMES(y, build_ints(&b, INTS(0))), NOTHING);
    y = build_node(&b, "Gather", NAMES(x, y), NOTHING);
    for (int i = 0; i < 20; i++)
        y = build_node(&b, "Add", NAMES(y, build_scalar(&b, 1)), NOTHING);
    build_output(&b, y);
    check_both_plans(&b, check_freed);
}

static void check_range(struct pare_plan *p)
{
    struct pare_tensor out[1], n = tensor_of(PARE_I64, 0, NULL, V(4));

    run_plan(p, &n, out);
    expect_output(&out[0], "(4)", V(0, 2, 4, 6));
    n = tensor_of(PARE_I64, 0, NULL, V(1));
    run_plan(p, &n, out);
    expect_output(&out[0], "(1)", V(0));
    n = tensor_of(PARE_I64, 0, NULL, V(0));
    run_plan(p, &n, out);
    expect_output(&out[0], "(0)", NULL);
    n = tensor_of(PARE_I64, 0, NULL, V(6));
    run_plan(p, &n, out);
    expect_output(&out[0], "(6)", V(0, 2, 4, 6, 8, 10));
}

static void test_range(void **state)
{
    struct build b = { .opset = 13 };
    const char *n = build_input(&b, PARE_I64, 0, NULL), *zero, *one, *y;

    (void)state;
    zero = build_const(&b, PARE_I64, 0, NULL, &(int64_t){ 0 });
    one = build_const(&b, PARE_I64, 0, NULL, &(int64_t){ 1 });
    y = build_node(&b, "Range", NAMES(zero, n, one), NOTHING);
    build_output(&b, build_node(&b, "Add", NAMES(y, y), NOTHING));
    check_both_plans(&b, check_range);
}

static void check_reshape(struct pare_plan *p)
{
    struct pare_tensor in[2], out[1];

    in[0] = tensor_of(PARE_F32, INTS(2, 6), V(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    in[1] = tensor_of(PARE_I64, INTS(2), V(3, -1));
    run_plan(p, in, out);
    expect_output(&out[0], "(3, 1)", V(10, 26, 42));
    in[1] = tensor_of(PARE_I64, INTS(2), V(1, 12));
    run_plan(p, in, out);
    expect_output(&out[0], "(1, 1)", V(78));
    in[1] = tensor_of(PARE_I64, INTS(2), V(6, 2));
    run_plan(p, in, out);
    expect_output(&out[0], "(6, 1)", V(3, 7, 11, 15, 19, 23));
}

static void test_reshape_by_input(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 6)), *s = build_input(&b, PARE_I64, INTS(2));
    const char *y = build_node(&b, "Reshape", NAMES(x, s), NOTHING);

    (void)state;
    build_output(&b, build_node(&b, "ReduceSum", NAMES(y, build_ints(&b, INTS(1))), NOTHING));
    check_both_plans(&b, check_reshape);
}

static void check_reshape_error(struct pare_plan *p)
{
    struct pare_tensor in[2], out[1];
    struct pare_err err;

    in[0] = tensor_of(PARE_F32, INTS(2, 6), V(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    in[1] = tensor_of(PARE_I64, INTS(2), V(5, -1));
    assert_int_equal(pare_plan_execute(p, in, out, &err), PARE_ESHAPE);
    assert_non_null(strstr(err.msg, "(Reshape): "));
    check_reshape(p); /* the plan still works after an error */
}

static void test_plan_works_after_an_error(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 6)), *s = build_input(&b, PARE_I64, INTS(2));
    const char *y = build_node(&b, "Reshape", NAMES(x, s), NOTHING);

    (void)state;
    build_output(&b, build_node(&b, "ReduceSum", NAMES(y, build_ints(&b, INTS(1))), NOTHING));
    check_both_plans(&b, check_reshape_error);
}

static void check_top_k(struct pare_plan *p)
{
    struct pare_tensor in[2], out[2];

    in[0] = tensor_of(PARE_F32, INTS(2, 4), V(1, 4, 3, 2, 8, 5, 6, 7));
    for (int i = 0; i < 2; i++) {
        in[1] = tensor_of(PARE_I64, INTS(1), V(1));
        run_plan(p, in, out);
        expect_output(&out[0], "(2, 1)", V(8, 16));
        expect_output(&out[1], "(2, 1)", V(1, 0));
        in[1] = tensor_of(PARE_I64, INTS(1), V(3));
        run_plan(p, in, out);
        expect_output(&out[0], "(2, 3)", V(8, 6, 4, 16, 14, 12));
        expect_output(&out[1], "(2, 3)", V(1, 2, 3, 0, 3, 2));
    }
}

static void test_top_k_by_input(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 4)), *k = build_input(&b, PARE_I64, INTS(1));
    const char *out[2];

    (void)state;
    build_node_outs(&b, "TopK", NAMES(x, k), NOTHING, 2, out);
    build_output(&b, build_node(&b, "Add", NAMES(out[0], out[0]), NOTHING));
    build_output(&b, out[1]);
    check_both_plans(&b, check_top_k);
}

/* ---- bodies of If --------------------------------------------------------------------------- */

static void check_bodies(struct pare_plan *p)
{
    struct pare_tensor in[3], out[2];

    in[0] = tensor_of(PARE_F32, INTS(1, 1, 2, 2), V(1, -2, 3, -4));
    for (int i = 0; i < 3; i++) {
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(1));
        in[2] = tensor_of(PARE_BOOL, 0, NULL, V(1));
        run_plan(p, in, out);
        expect_output(&out[0], "(1, 1, 2, 2)",
                      V(15, 6, 21, 0)); /* 2 c + 10 - x, where c = 1 + 2 x */
        in[2] = tensor_of(PARE_BOOL, 0, NULL, V(0));
        run_plan(p, in, out);
        expect_output(&out[0], "(1, 1, 2, 2)", V(3, -3, 7, -7));
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(0));
        run_plan(p, in, out);
        expect_output(&out[0], "(2)", V(5, 6));
    }
}

/* A body of an inner If, which uses values of both enclosing graphs. */
static struct build inner_body(const char *prefix, const char *c, const char *t, const char *x)
{
    struct build in = { .prefix = prefix };
    const char *y = t ? build_node(&in, "Add", NAMES(c, t), NOTHING)
                      : build_node(&in, "Identity", NAMES(c), NOTHING);

    build_output(&in, t ? build_node(&in, "Sub", NAMES(y, x), NOTHING) : y);
    return in;
}

static void test_nested_if(void **state)
{
    struct build *b = pare_alloc(pool, 1, sizeof(*b)), *then = pare_alloc(pool, 1, sizeof(*then));
    struct build *other = pare_alloc(pool, 1, sizeof(*other)), *yes, *no;
    const char *x, *first, *second, *w, *bias, *c, *t;

    (void)state;
    b->opset = 13;
    yes = pare_alloc(pool, 1, sizeof(*yes));
    no = pare_alloc(pool, 1, sizeof(*no));
    x = build_input(b, PARE_F32, INTS(1, 1, 2, 2));
    first = build_input(b, PARE_BOOL, 0, NULL);
    second = build_input(b, PARE_BOOL, 0, NULL);
    w = build_floats(b, INTS(1, 1, 1, 1), (float[]){ 2 });
    bias = build_floats(b, INTS(1), (float[]){ 1 });
    c = build_node(b, "Conv", NAMES(x, w, bias), NOTHING);
    then->prefix = "t";
    t = build_node(then, "Add", NAMES(c, build_scalar(then, 10)), NOTHING);
    *yes = inner_body("ty", c, t, x);
    *no = inner_body("tn", c, NULL, x);
    build_output(then, build_node(then, "If", NAMES(second),
                                  CAT(at_graph("then_branch", yes), at_graph("else_branch", no))));
    other->prefix = "e";
    build_output(other,
                 build_node(other, "Identity",
                            NAMES(build_floats(other, INTS(2), (float[]){ 5, 6 })), NOTHING));
    build_output(b, build_node(b, "If", NAMES(first),
                               CAT(at_graph("then_branch", then), at_graph("else_branch", other))));
    check_both_plans(b, check_bodies);
}

static void check_captured(struct pare_plan *p)
{
    struct pare_tensor in[2], out[1];

    in[0] = tensor_of(PARE_F32, INTS(4), V(1, -2, 3, -4));
    for (int i = 0; i < 2; i++) {
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(1));
        run_plan(p, in, out);
        expect_output(&out[0], "(4)", V(3, -6, 9, -12));
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(0));
        run_plan(p, in, out);
        expect_output(&out[0], "(4)", V(6, -12, 18, -24));
    }
}

/* A body whose result is a captured value: no later node reads that value, yet its
 * contents are needed until the result of the If is read. */
static void test_captured_value_as_result(void **state)
{
    struct build *b = pare_alloc(pool, 1, sizeof(*b)), *then = pare_alloc(pool, 1, sizeof(*then));
    struct build *other = pare_alloc(pool, 1, sizeof(*other));
    const char *x, *cond, *y, *z;

    (void)state;
    b->opset = 13;
    x = build_input(b, PARE_F32, INTS(4));
    cond = build_input(b, PARE_BOOL, 0, NULL);
    build_output(then, build_node(b, "Add", NAMES(x, x), NOTHING));
    build_output(other, build_node(b, "Mul", NAMES(x, build_scalar(b, 5)), NOTHING));
    y = build_node(b, "If", NAMES(cond),
                   CAT(at_graph("then_branch", then), at_graph("else_branch", other)));
    z = build_node(b, "Concat", NAMES(x, x), at_int("axis", 0)); /* may reuse their memory */
    z = build_node(b, "Slice", NAMES(z, build_ints(b, INTS(4)), build_ints(b, INTS(8))), NOTHING);
    build_output(b, build_node(b, "Add", NAMES(y, z), NOTHING));
    check_both_plans(b, check_captured);
}

/* ---- errors of inputs -----------------------------------------------------------------------*/

static void expect_plan_error(const struct pare_model *m, const struct pare_tensor *in,
                              int64_t batch, const char *text)
{
    struct pare_plan_opts o = { .in = in, .batch = batch };
    struct pare_plan *p;
    struct pare_err err;

    assert_int_not_equal(pare_plan_make(m, &o, &p, &err), 0);
    assert_null(p);
    assert_string_equal(err.msg, text);
}

static struct pare_tensor tensor_shape(int dtype, int rank, const int64_t *dim)
{
    struct pare_tensor t = { .dtype = (enum pare_dtype)dtype, .rank = rank };

    for (int i = 0; i < rank && i < PARE_MAX_RANK; i++)
        t.dim[i] = dim[i];
    return t;
}

static void test_wrong_shapes_are_errors(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(-1, 3, 4));
    struct pare_model *m;
    struct pare_tensor t;

    (void)state;
    build_output(&b, build_node(&b, "Relu", NAMES(x), NOTHING));
    m = build_model(&b);
    t = tensor_shape(PARE_F32, INTS(2, 3, 5));
    expect_plan_error(m, &t, 0, "model: input 'v0' is (2, 3, 5), the model takes (-1, 3, 4)");
    t = tensor_shape(PARE_F32, INTS(2, 12));
    expect_plan_error(m, &t, 0, "model: input 'v0' is (2, 12), the model takes (-1, 3, 4)");
    t = tensor_shape(PARE_F64, INTS(2, 3, 4));
    expect_plan_error(m, &t, 0, "model: input 'v0' is float64, the model takes float32");
    expect_plan_error(m, NULL, -3, "model: shape (-3, 3, 4) has a negative dimension");
    pare_model_free(m);
}

/* A model that declares no input shape needs a shape for its plan. */
static void test_input_without_rank(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, -1, NULL);
    struct pare_model *m;
    struct pare_tensor t, out;
    struct pare_plan *p;
    struct pare_err err;

    (void)state;
    build_output(&b, build_node(&b, "Relu", NAMES(x), NOTHING));
    m = build_model(&b);
    expect_plan_error(m, NULL, 0,
                      "model: input 'v0' is not a tensor of known rank: specify its shape");
    t = tensor_shape(PARE_F32, 9, (int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 });
    expect_plan_error(m, &t, 0, "model: input 'v0' has 9 dimensions, at most 8 are handled");
    t = tensor_shape(PARE_F32, -1, NULL);
    expect_plan_error(m, &t, 0,
                      "model: input 'v0' is not a tensor of known rank: specify its shape");
    t = tensor_shape(PARE_F32, INTS(INT64_MAX / 2, 8));
    assert_int_not_equal(pare_plan_make(m, &(struct pare_plan_opts){ .in = &t }, &p, &err), 0);
    t = tensor_of(PARE_F32, INTS(2, 1), V(-1, 3));
    assert_int_equal(pare_plan_make(m, &(struct pare_plan_opts){ .in = &t }, &p, &err), 0);
    run_plan(p, &t, &out);
    expect_output(&out, "(2, 1)", V(0, 3));
    pare_plan_free(p);
    pare_model_free(m);
}

static void test_wrong_inputs_at_run(void **state)
{
    static const char text[] = "the plan was made for float32 (1, 3, 4)";
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(-1, 3, 4));
    struct pare_tensor in[4], out;
    struct pare_model *m;
    struct pare_plan *p;
    struct pare_err err;

    (void)state;
    build_output(&b, build_node(&b, "Relu", NAMES(x), NOTHING));
    p = make_plan(&b, NULL, &m);
    in[0] = build_tensor(PARE_F32, INTS(2, 3, 4));
    in[1] = build_tensor(PARE_F32, INTS(12));
    in[2] = build_tensor(PARE_I32, INTS(1, 3, 4));
    in[3] = tensor_shape(PARE_F32, INTS(1, 3, 4));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pare_plan_execute(p, &in[i], &out, &err), PARE_ESHAPE);
        assert_non_null(strstr(err.msg, text));
    }
    assert_int_equal(pare_plan_execute(p, &in[3], &out, &err), PARE_ECONFIG);
    assert_string_equal(err.msg, "input 'v0' has no data");
    pare_plan_free(p);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_non_zero, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_results_are_freed, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_range, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_reshape_by_input, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_plan_works_after_an_error, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_top_k_by_input, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_nested_if, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_captured_value_as_result, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_wrong_shapes_are_errors, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_input_without_rank, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_wrong_inputs_at_run, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
