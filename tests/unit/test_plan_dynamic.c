/* test_plan_dynamic.c - plans with data-dependent shapes and branches; errors for wrong inputs.
 *
 * Every model runs several times in one plan, with data that lead to other sizes.
 */
#include "make_model.h"

#include "plan/plan.h"

static struct pare_plan *compile(struct build *b, const struct pare_plan_opts *o,
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

static void run(struct pare_plan *p, const struct pare_tensor *in, struct pare_tensor *out)
{
    struct pare_err err;

    memset(p->memory, 0xff, p->memory_bytes);
    if (pare_plan_execute(p, in, out, &err))
        fail_msg("%s", err.msg);
}

static void expect(const struct pare_tensor *t, const char *shape, const double *want)
{
    char buf[PARE_SHAPE_TEXT];

    assert_string_equal(pare_shape_text(t, buf, sizeof(buf)), shape);
    for (int64_t i = 0; i < pare_numel(t); i++)
        if (!(pare_get(t, i) - want[i] < 1e-5 && want[i] - pare_get(t, i) < 1e-5))
            fail_msg("element %d is %g, expected %g", (int)i, pare_get(t, i), want[i]);
}

/* Both the fast plan and the plain one. */
static void both(struct build *b, void (*check)(struct pare_plan *p))
{
    for (int reference = 0; reference < 2; reference++) {
        struct pare_plan_opts o = { .reference = reference, .threads = 2 };
        struct pare_model *m;
        struct pare_plan *p = compile(b, &o, &m);

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
        run(p, &a, out);
        expect(&out[0], "(3)", V(2, 0, 4));
        expect(&out[1], "(5)", V(1, 3, 1, -2, 5));
        run(p, &b, out);
        expect(&out[0], "(1)", V(1));
        expect(&out[1], "(5)", V(2, 1, 1, 1, 1));
        run(p, &none, out);
        expect(&out[0], "(0)", NULL);
    }
}

/* The elements that are not zero, through Relu; and another value of known shape. */
static void non_zero(void **state)
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
    both(&b, check_non_zero);
}

static void check_range(struct pare_plan *p)
{
    struct pare_tensor out[1], n = tensor_of(PARE_I64, 0, NULL, V(4));

    run(p, &n, out);
    expect(&out[0], "(4)", V(0, 2, 4, 6));
    n = tensor_of(PARE_I64, 0, NULL, V(1));
    run(p, &n, out);
    expect(&out[0], "(1)", V(0));
    n = tensor_of(PARE_I64, 0, NULL, V(0));
    run(p, &n, out);
    expect(&out[0], "(0)", NULL);
    n = tensor_of(PARE_I64, 0, NULL, V(6));
    run(p, &n, out);
    expect(&out[0], "(6)", V(0, 2, 4, 6, 8, 10));
}

static void range(void **state)
{
    struct build b = { .opset = 13 };
    const char *n = build_input(&b, PARE_I64, 0, NULL), *zero, *one, *y;

    (void)state;
    zero = build_const(&b, PARE_I64, 0, NULL, &(int64_t){ 0 });
    one = build_const(&b, PARE_I64, 0, NULL, &(int64_t){ 1 });
    y = build_node(&b, "Range", NAMES(zero, n, one), NOTHING);
    build_output(&b, build_node(&b, "Add", NAMES(y, y), NOTHING));
    both(&b, check_range);
}

static void check_reshape(struct pare_plan *p)
{
    struct pare_tensor in[2], out[1];

    in[0] = tensor_of(PARE_F32, INTS(2, 6), V(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    in[1] = tensor_of(PARE_I64, INTS(2), V(3, -1));
    run(p, in, out);
    expect(&out[0], "(3, 1)", V(10, 26, 42));
    in[1] = tensor_of(PARE_I64, INTS(2), V(1, 12));
    run(p, in, out);
    expect(&out[0], "(1, 1)", V(78));
    in[1] = tensor_of(PARE_I64, INTS(2), V(6, 2));
    run(p, in, out);
    expect(&out[0], "(6, 1)", V(3, 7, 11, 15, 19, 23));
}

static void reshape(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 6)), *s = build_input(&b, PARE_I64, INTS(2));
    const char *y = build_node(&b, "Reshape", NAMES(x, s), NOTHING);

    (void)state;
    build_output(&b, build_node(&b, "ReduceSum", NAMES(y, build_ints(&b, INTS(1))), NOTHING));
    both(&b, check_reshape);
}

static void check_reshape_error(struct pare_plan *p)
{
    struct pare_tensor in[2], out[1];
    struct pare_err err;

    in[0] = tensor_of(PARE_F32, INTS(2, 6), V(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    in[1] = tensor_of(PARE_I64, INTS(2), V(5, -1));
    assert_int_equal(pare_plan_execute(p, in, out, &err), PARE_ESHAPE);
    assert_non_null(strstr(err.msg, "(Reshape): "));
    check_reshape(p); /* an error leaves the plan as it was */
}

static void reshape_error(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 6)), *s = build_input(&b, PARE_I64, INTS(2));
    const char *y = build_node(&b, "Reshape", NAMES(x, s), NOTHING);

    (void)state;
    build_output(&b, build_node(&b, "ReduceSum", NAMES(y, build_ints(&b, INTS(1))), NOTHING));
    both(&b, check_reshape_error);
}

static void check_top_k(struct pare_plan *p)
{
    struct pare_tensor in[2], out[2];

    in[0] = tensor_of(PARE_F32, INTS(2, 4), V(1, 4, 3, 2, 8, 5, 6, 7));
    for (int i = 0; i < 2; i++) {
        in[1] = tensor_of(PARE_I64, INTS(1), V(1));
        run(p, in, out);
        expect(&out[0], "(2, 1)", V(8, 16));
        expect(&out[1], "(2, 1)", V(1, 0));
        in[1] = tensor_of(PARE_I64, INTS(1), V(3));
        run(p, in, out);
        expect(&out[0], "(2, 3)", V(8, 6, 4, 16, 14, 12));
        expect(&out[1], "(2, 3)", V(1, 2, 3, 0, 3, 2));
    }
}

static void top_k(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 4)), *k = build_input(&b, PARE_I64, INTS(1));
    const char *out[2];

    (void)state;
    build_node_outs(&b, "TopK", NAMES(x, k), NOTHING, 2, out);
    build_output(&b, build_node(&b, "Add", NAMES(out[0], out[0]), NOTHING));
    build_output(&b, out[1]);
    both(&b, check_top_k);
}

/* ---- branches ------------------------------------------------------------------------------- */

static void check_branches(struct pare_plan *p)
{
    struct pare_tensor in[3], out[2];

    in[0] = tensor_of(PARE_F32, INTS(1, 1, 2, 2), V(1, -2, 3, -4));
    for (int i = 0; i < 3; i++) {
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(1));
        in[2] = tensor_of(PARE_BOOL, 0, NULL, V(1));
        run(p, in, out);
        expect(&out[0], "(1, 1, 2, 2)", V(15, 6, 21, 0)); /* 2 c + 10 - x, where c = 1 + 2 x */
        in[2] = tensor_of(PARE_BOOL, 0, NULL, V(0));
        run(p, in, out);
        expect(&out[0], "(1, 1, 2, 2)", V(3, -3, 7, -7));
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(0));
        run(p, in, out);
        expect(&out[0], "(2)", V(5, 6));
    }
}

/* A condition in a condition; the inner branches use values of both graphs around. */
static struct build inner_branch(const char *prefix, const char *c, const char *t, const char *x)
{
    struct build in = { .prefix = prefix };
    const char *y = t ? build_node(&in, "Add", NAMES(c, t), NOTHING)
                      : build_node(&in, "Identity", NAMES(c), NOTHING);

    build_output(&in, t ? build_node(&in, "Sub", NAMES(y, x), NOTHING) : y);
    return in;
}

static void branches(void **state)
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
    *yes = inner_branch("ty", c, t, x);
    *no = inner_branch("tn", c, NULL, x);
    build_output(then, build_node(then, "If", NAMES(second),
                                  CAT(at_graph("then_branch", yes), at_graph("else_branch", no))));
    other->prefix = "e";
    build_output(other,
                 build_node(other, "Identity",
                            NAMES(build_floats(other, INTS(2), (float[]){ 5, 6 })), NOTHING));
    build_output(b, build_node(b, "If", NAMES(first),
                               CAT(at_graph("then_branch", then), at_graph("else_branch", other))));
    both(b, check_branches);
}

static void check_captured(struct pare_plan *p)
{
    struct pare_tensor in[2], out[1];

    in[0] = tensor_of(PARE_F32, INTS(4), V(1, -2, 3, -4));
    for (int i = 0; i < 2; i++) {
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(1));
        run(p, in, out);
        expect(&out[0], "(4)", V(3, -6, 9, -12));
        in[1] = tensor_of(PARE_BOOL, 0, NULL, V(0));
        run(p, in, out);
        expect(&out[0], "(4)", V(6, -12, 18, -24));
    }
}

/* A branch whose result is a value of the outer graph: no later node reads that value, yet its
 * contents are needed until the branch's result is read. */
static void captured_result(void **state)
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
    z = build_node(b, "Concat", NAMES(x, x), at_int("axis", 0)); /* where the old ones were */
    z = build_node(b, "Slice", NAMES(z, build_ints(b, INTS(4)), build_ints(b, INTS(8))), NOTHING);
    build_output(b, build_node(b, "Add", NAMES(y, z), NOTHING));
    both(b, check_captured);
}

/* ---- what is wrong with the inputs ----------------------------------------------------------*/

static void refuses(const struct pare_model *m, const struct pare_tensor *in, int64_t batch,
                    const char *text)
{
    struct pare_plan_opts o = { .in = in, .batch = batch };
    struct pare_plan *p;
    struct pare_err err;

    assert_int_not_equal(pare_plan_make(m, &o, &p, &err), 0);
    assert_null(p);
    assert_string_equal(err.msg, text);
}

static struct pare_tensor shape(int dtype, int rank, const int64_t *dim)
{
    struct pare_tensor t = { .dtype = (enum pare_dtype)dtype, .rank = rank };

    for (int i = 0; i < rank && i < PARE_MAX_RANK; i++)
        t.dim[i] = dim[i];
    return t;
}

static void wrong_shapes(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, INTS(-1, 3, 4));
    struct pare_model *m;
    struct pare_tensor t;

    (void)state;
    build_output(&b, build_node(&b, "Relu", NAMES(x), NOTHING));
    m = build_model(&b);
    t = shape(PARE_F32, INTS(2, 3, 5));
    refuses(m, &t, 0, "model: input 'v0' is (2, 3, 5), the model takes (-1, 3, 4)");
    t = shape(PARE_F32, INTS(2, 12));
    refuses(m, &t, 0, "model: input 'v0' is (2, 12), the model takes (-1, 3, 4)");
    t = shape(PARE_F64, INTS(2, 3, 4));
    refuses(m, &t, 0, "model: input 'v0' is float64, the model takes float32");
    refuses(m, NULL, -3, "model: shape (-3, 3, 4) has a negative dimension");
    pare_model_free(m);
}

/* A model that says nothing of its input takes any shape, but a shape. */
static void open_rank(void **state)
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
    refuses(m, NULL, 0, "model: input 'v0' is not a tensor of known rank: specify its shape");
    t = shape(PARE_F32, 9, (int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 });
    refuses(m, &t, 0, "model: input 'v0' has 9 dimensions, at most 8 are handled");
    t = shape(PARE_F32, -1, NULL);
    refuses(m, &t, 0, "model: input 'v0' is not a tensor of known rank: specify its shape");
    t = shape(PARE_F32, INTS(INT64_MAX / 2, 8));
    assert_int_not_equal(pare_plan_make(m, &(struct pare_plan_opts){ .in = &t }, &p, &err), 0);
    t = tensor_of(PARE_F32, INTS(2, 1), V(-1, 3));
    assert_int_equal(pare_plan_make(m, &(struct pare_plan_opts){ .in = &t }, &p, &err), 0);
    run(p, &t, &out);
    expect(&out, "(2, 1)", V(0, 3));
    pare_plan_free(p);
    pare_model_free(m);
}

static void wrong_at_run(void **state)
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
    p = compile(&b, NULL, &m);
    in[0] = build_tensor(PARE_F32, INTS(2, 3, 4));
    in[1] = build_tensor(PARE_F32, INTS(12));
    in[2] = build_tensor(PARE_I32, INTS(1, 3, 4));
    in[3] = shape(PARE_F32, INTS(1, 3, 4));
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
        cmocka_unit_test_setup_teardown(non_zero, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(range, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(reshape, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(reshape_error, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(top_k, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(branches, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(captured_result, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(wrong_shapes, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(open_rank, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(wrong_at_run, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
