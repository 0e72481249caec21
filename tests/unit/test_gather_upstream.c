/* test_gather_upstream.c - Gather is hoisted above row-wise operators, forward and backward, where
 * the results stay the same. */
#include "small_net.h"

#include "plan/plan.h"
#include "tensor/compare.h"

enum { ITEMS = 3, TOKENS = 6, DIM = 8, MOST_WEIGHTS = 24 };

/* ---- graphs in which Gather is hoisted, from x (3, 6, 8) ----------------------------------- */

static int64_t row = 2;

static const char *gather_row(struct net *n, const char *x, int64_t axis)
{
    const char *at = build_const(&n->b, PARE_I64, 0, NULL, &row);

    return NODE("Gather", NAMES(x, at), at_int("axis", axis));
}

static const char *gelu(struct net *n, const char *x)
{
    const char *y = NODE("Div", NAMES(x, build_scalar(&n->b, 1.4142135f)), NOTHING);

    y = NODE("Add", NAMES(NODE("Erf", NAMES(y), NOTHING), build_scalar(&n->b, 1)), NOTHING);
    y = NODE("Mul", NAMES(x, y), NOTHING);
    return NODE("Mul", NAMES(y, build_scalar(&n->b, 0.5f)), NOTHING);
}

static const char *norm(struct net *n, const char *x)
{
    return NODE("LayerNormalization",
                NAMES(x, random_weight(n, INTS(DIM)), random_weight(n, INTS(DIM))),
                at_int("axis", -1));
}

static const char *linear(struct net *n, const char *x, int64_t in, int64_t out)
{
    return NODE("Gemm", NAMES(x, random_weight(n, INTS(out, in)), random_weight(n, INTS(out))),
                at_int("transB", 1));
}

/* Tokens of all items as the rows of a matrix, as in pare new vit-tiny. */
NETWORK(flat)
{
    const char *x = NODE("Reshape", NAMES(n->x, LIST(-1, DIM)), NOTHING), *y;

    x = NODE("Add", NAMES(x, linear(n, x, DIM, DIM)), NOTHING);
    y = linear(n, gelu(n, linear(n, norm(n, x), DIM, 16)), 16, DIM);
    y = norm(n, NODE("Add", NAMES(x, y), NOTHING));
    y = NODE("Reshape", NAMES(y, LIST(-1, TOKENS, DIM)), NOTHING);
    return linear(n, gather_row(n, y, 1), DIM, 5);
}

/* A LayerNormalization in single operators, as exporters write it for old opsets. */
static const char *norm_of_single_operators(struct net *n, const char *x)
{
    struct bin last = at_ints("axes", INTS(-1));
    const char *d = NODE("Sub", NAMES(x, NODE("ReduceMean", NAMES(x), last)), NOTHING), *v;

    v = NODE("Pow", NAMES(d, build_scalar(&n->b, 2)), NOTHING);
    v = NODE("Add", NAMES(NODE("ReduceMean", NAMES(v), last), build_scalar(&n->b, 1e-5f)), NOTHING);
    d = NODE("Div", NAMES(d, NODE("Sqrt", NAMES(v), NOTHING)), NOTHING);
    d = NODE("Mul", NAMES(d, random_weight(n, INTS(DIM))), NOTHING);
    return NODE("Add", NAMES(d, random_weight(n, INTS(DIM))), NOTHING);
}

/* Sequence first, products of rank 3, as in torchvision's vit_b_16. */
NETWORK(sequence_first)
{
    const char *y = NODE("Transpose", NAMES(n->x), at_ints("perm", INTS(1, 0, 2)));

    y = NODE("Tanh", NAMES(NODE("Reshape", NAMES(y, LIST(-1, DIM)), NOTHING)), NOTHING);
    y = NODE("Reshape", NAMES(linear(n, y, DIM, DIM), LIST(TOKENS, -1, DIM)), NOTHING);
    y = NODE("Transpose", NAMES(y), at_ints("perm", INTS(1, 0, 2)));
    y = NODE("Add", NAMES(y, n->x), NOTHING);
    y = NODE("MatMul", NAMES(norm_of_single_operators(n, y), random_weight(n, INTS(DIM, DIM))),
             NOTHING);
    y = NODE("Softmax", NAMES(NODE("Add", NAMES(random_weight(n, INTS(DIM)), y), NOTHING)),
             at_int("axis", -1));
    return gather_row(n, y, 1);
}

/* Two of six rows, one counted from the end, in another order; an axis that is split. */
NETWORK(two_rows)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 4))), NOTHING);

    y = NODE("Reshape", NAMES(y, LIST(ITEMS, TOKENS, 2, 2)), NOTHING);
    y = NODE("Mul", NAMES(y, random_weight(n, INTS(2, 1))), NOTHING);
    return NODE("Gather", NAMES(y, LIST(-1, 0)), at_int("axis", 1));
}

/* Gather of items instead of tokens. */
NETWORK(first_axis)
{
    return gather_row(n, NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 4))), NOTHING), 0);
}

NETWORK(quantized)
{
    const char *s = build_scalar(&n->b, 0.02f), *y;

    y = NODE("QuantizeLinear", NAMES(n->x, s), NOTHING);
    y = NODE("DequantizeLinear", NAMES(y, s), NOTHING);
    y = NODE("MatMul", NAMES(y, random_weight(n, INTS(DIM, 4))), NOTHING);
    return gather_row(n, y, 1);
}

/* ---- graphs that are not changed ------------------------------------------------------------ */

NETWORK(is_output)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 4))), NOTHING);

    build_output(&n->b, y);
    return gather_row(n, y, 1);
}

/* The means of all rows are an output. */
NETWORK(other_output)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 4))), NOTHING), *out[2];

    build_node_outs(&n->b, "LayerNormalization", NAMES(y, random_weight(n, INTS(4))), NOTHING, 2,
                    out);
    build_output(&n->b, out[1]);
    return gather_row(n, out[0], 1);
}

NETWORK(read_elsewhere)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, DIM))), NOTHING);
    const char *all = NODE("ReduceMean", NAMES(y), at_ints("axes", INTS(1)));

    return NODE("Add", NAMES(gather_row(n, y, 1), NODE("Squeeze", NAMES(all, LIST(1)), NOTHING)),
                NOTHING);
}

NETWORK(most_rows)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 4))), NOTHING);

    return NODE("Gather", NAMES(y, LIST(0, 1, 2, 3)), at_int("axis", 1));
}

NETWORK(columns)
{
    return gather_row(n, NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 8))), NOTHING), 2);
}

NETWORK(mixes_tokens)
{
    const char *y = NODE("Transpose", NAMES(n->x), at_ints("perm", INTS(0, 2, 1)));

    y = NODE("MatMul", NAMES(y, random_weight(n, INTS(TOKENS, TOKENS))), NOTHING);
    return gather_row(n, NODE("Transpose", NAMES(y), at_ints("perm", INTS(0, 2, 1))), 1);
}

NETWORK(softmax_of_tokens)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 4))), NOTHING);

    return gather_row(n, NODE("Softmax", NAMES(y), at_int("axis", 1)), 1);
}

/* A constant for each token. */
NETWORK(by_token)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, 4))), NOTHING);

    return gather_row(n, NODE("Add", NAMES(y, random_weight(n, INTS(TOKENS, 1))), NOTHING), 1);
}

NETWORK(no_product)
{
    return gather_row(n, norm(n, gelu(n, n->x)), 1);
}

/* The rows are needed along two axes. */
NETWORK(two_axes)
{
    const char *y = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(DIM, TOKENS))), NOTHING);
    const char *t = NODE("Transpose", NAMES(y), at_ints("perm", INTS(0, 2, 1)));

    return gather_row(n, NODE("Add", NAMES(y, t), NOTHING), 1);
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
    bool hoisted, trains; /* is Gather hoisted; has the graph gradients? */
} nets[] = {
    { "flat", flat, true, true },
    { "sequence first", sequence_first, true, true },
    { "two rows", two_rows, true, true },
    { "first axis", first_axis, true, true },
    { "quantized", quantized, true, false },
    { "is an output", is_output, false, true },
    { "another result is an output", other_output, false, false },
    { "read elsewhere", read_elsewhere, false, true },
    { "most rows", most_rows, false, true },
    { "columns", columns, false, true },
    { "mixes tokens", mixes_tokens, false, true },
    { "softmax of tokens", softmax_of_tokens, false, true },
    { "by token", by_token, false, true },
    { "no product", no_product, false, true },
    { "two axes", two_axes, false, true },
};

/* ---- tests ---------------------------------------------------------------------------------- */

static struct pare_err err;

static struct pare_model *make_model(size_t i)
{
    static struct net n;
    const char *y;

    net_begin(&n, 5, 0.5f);
    n.x = build_input(&n.b, PARE_F32, INTS(ITEMS, TOKENS, DIM));
    y = nets[i].make(&n);
    build_output(&n.b, y);
    return build_model(&n.b);
}

static bool is_hoisted(const struct pare_plan *p)
{
    for (int i = 0; i < p->graph->n_values; i++)
        if (strstr(p->graph->value[i]->name, " chosen for "))
            return true;
    return false;
}

static void expect_close(const char *name, const char *what, const struct pare_tensor *got,
                         const struct pare_tensor *want)
{
    if (pare_tensor_compare(got, want, (struct pare_tolerance){ 1e-4, 1e-5 }, &err))
        fail_msg("%s, %s: %s", name, what, err.msg);
}

static void run_plan(struct pare_plan *p, const struct pare_tensor *x, struct pare_tensor *copy)
{
    struct pare_tensor out[2];

    if (pare_plan_execute(p, x, out, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < p->graph->n_out; i++)
        copy[i] = build_copy(&out[i]);
}

static void test_outputs_match_reference(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, TOKENS, DIM)), want[2], got[2];
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    rg_fill(&r, &x, 1);
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
        struct pare_model *m = make_model(i);
        struct pare_plan_opts o = { .threads = 1, .in = &x, .reference = true };
        struct pare_plan *p;

        assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
        run_plan(p, &x, want);
        assert_false(is_hoisted(p));
        pare_plan_free(p);
        o.reference = false;
        if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p, &err))
            fail_msg("%s: %s", nets[i].name, err.msg);
        if (is_hoisted(p) != nets[i].hoisted)
            fail_msg("%s: %s", nets[i].name,
                     nets[i].hoisted ? "Gather is not hoisted" : "Gather is hoisted");
        run_plan(p, &x, got);
        for (int k = 0; k < p->graph->n_out; k++)
            expect_close(nets[i].name, "result", &got[k], &want[k]);
        pare_plan_free(p);
        pare_model_free(m);
    }
}

/* Gradients of all weights for a loss of sum(y * (1, 2, 3...) / 10). */
static int compute_gradients(struct pare_model *m, const struct pare_tensor *x, bool reference,
                             struct pare_tensor *grad)
{
    const char *names[MOST_WEIGHTS];
    struct pare_plan_opts o = { .threads = 1, .in = x, .reference = reference };
    struct pare_plan_train t = { .names = names, .grad = grad };
    struct pare_plan_build build = { .opts = &o, .train = &t };
    struct pare_plan *p;
    struct pare_tensor out[2];

    for (int i = 0; i < m->graph->n_values; i++) {
        struct pare_value *v = m->graph->value[i];

        if (!(v->flags & PARE_V_CONST) || v->t.dtype != PARE_F32 || !v->t.rank)
            continue;
        assert_true(t.n_names < MOST_WEIGHTS);
        assert_int_equal(pare_model_own(m, v, &err), 0);
        grad[t.n_names] = build_tensor(PARE_F32, v->t.rank, v->t.dim);
        names[t.n_names++] = v->name;
    }
    if (pare_plan_build(m, &build, &p, &err) || pare_plan_execute(p, x, out, &err))
        fail_msg("%s", err.msg);
    for (int64_t k = 0; k < pare_numel(&out[0]); k++)
        pare_plan_out_grad(p)[k] = 0.1f * (float)(k + 1);
    assert_int_equal(pare_plan_backward(p, &err), 0);
    pare_plan_free(p);
    return t.n_names;
}

static void test_gradients_match_reference(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, TOKENS, DIM));
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    rg_fill(&r, &x, 1);
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
        struct pare_tensor want[MOST_WEIGHTS], got[MOST_WEIGHTS];
        struct pare_model *m = make_model(i);
        int n;

        n = nets[i].trains ? compute_gradients(m, &x, true, want) : 0;
        if (n)
            compute_gradients(m, &x, false, got);
        for (int k = 0; k < n; k++)
            expect_close(nets[i].name, "gradient", &got[k], &want[k]);
        pare_model_free(m);
    }
}

/* An observed value has all its rows. */
static void test_observed_values_have_all_rows(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, TOKENS, DIM)), out[2];
    struct pare_model *m = make_model(0);
    struct pare_plan_opts o = { .threads = 1, .in = &x };
    const char *name = NULL;
    struct pare_plan_build build = { .opts = &o, .observe = { &name, 1 } };
    struct pare_plan *p;

    (void)state;
    for (int i = 0; i < m->graph->n_nodes; i++)
        if (!strcmp(m->graph->node[i]->type, "Erf"))
            name = m->graph->node[i]->out[0]->name;
    assert_non_null(name);
    memset(x.data, 0, (size_t)pare_numel(&x) * sizeof(float));
    assert_int_equal(pare_plan_build(m, &build, &p, &err), 0);
    assert_int_equal(pare_plan_execute(p, &x, out, &err), 0);
    assert_int_equal(pare_plan_value(p, 0)->dim[0], ITEMS * TOKENS);
    pare_plan_free(p);
    pare_model_free(m);
}

/* An index out of range: the error is the same as without hoisting. */
static void test_wrong_index_error(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, TOKENS, DIM)), out[2];
    struct pare_plan_opts o = { .threads = 1, .in = &x };
    struct pare_err error[2] = { { 0 } };
    struct pare_model *m;

    (void)state;
    memset(x.data, 0, (size_t)pare_numel(&x) * sizeof(float));
    row = TOKENS;
    m = make_model(0);
    row = 2;
    for (int fast = 0; fast < 2; fast++) {
        struct pare_plan *p = NULL;

        o.reference = !fast;
        if (!pare_plan_make(m, &o, &p, &error[fast]))
            assert_int_not_equal(pare_plan_execute(p, &x, out, &error[fast]), 0);
        pare_plan_free(p);
    }
    assert_string_equal(error[1].msg, error[0].msg);
    pare_model_free(m);
}

/* Each allocation fails once. */
static void test_out_of_memory(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, TOKENS, DIM));
    struct pare_model *m = make_model(0);
    struct pare_plan_opts o = { .threads = 1, .in = &x };
    int failures = 0;

    (void)state;
    for (int at = 1; build_plan_fails(m, &o, 0, at, &failures); at++)
        ;
    assert_true(failures > 0);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_outputs_match_reference, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_gradients_match_reference, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_observed_values_have_all_rows, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_wrong_index_error, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_out_of_memory, make_pool, drop_pool),
    };

    return cmocka_run_group_tests_name("gather_upstream", tests, NULL, NULL);
}
