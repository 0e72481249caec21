/* test_tail_plans.c - layers after a shape that depends on data run by plans of their own. */
#include "small_net.h"

#include "plan/plan.h"
#include "tensor/compare.h"

static struct pare_err err;

enum { ROWS = 12, D = 8 };

/* The rows of x whose first element is positive. */
static const char *positive_rows(struct net *n, const char *x)
{
    const char *first = NODE("Gather",
                             NAMES(x, build_const(&n->b, PARE_I64, 0, NULL, &(int64_t){ 0 })),
                             at_int("axis", 1));
    const char *at = NODE("NonZero",
                          NAMES(NODE("Greater", NAMES(first, build_scalar(&n->b, 0)), NOTHING)),
                          NOTHING);

    at = NODE("Reshape", NAMES(at, LIST(-1)), NOTHING);
    return NODE("Gather", NAMES(x, at), NOTHING);
}

static const char *linear(struct net *n, const char *x)
{
    return NODE("Gemm", NAMES(x, random_weight(n, INTS(D, D)), random_weight(n, INTS(D))), NOTHING);
}

NETWORK(once)
{
    return NODE("Relu", NAMES(linear(n, positive_rows(n, n->x))), NOTHING);
}

/* A tail in a tail. */
NETWORK(again)
{
    const char *y = linear(n, positive_rows(n, n->x));

    return NODE("Tanh", NAMES(linear(n, positive_rows(n, y))), NOTHING);
}

/* The tail reads values before it and makes two outputs; its last shape is known again. */
NETWORK(joined)
{
    const char *rest = linear(n, n->x), *y = linear(n, positive_rows(n, n->x));
    const char *sum = NODE("ReduceSum", NAMES(y, LIST(0)), NOTHING);

    build_output(&n->b, y);
    return linear(n, NODE("Add", NAMES(rest, sum), NOTHING));
}

/* A body of the tail reads a value of the tail and one before it. */
NETWORK(body)
{
    const char *rest = NODE("Tanh", NAMES(n->x), NOTHING), *y = linear(n, positive_rows(n, n->x));
    struct build then = { .opset = n->b.opset, .prefix = "then_" };
    struct build other = { .opset = n->b.opset, .prefix = "other_" };
    const char *c;

    build_put(&then, text(2, "then"));
    build_put(&other, text(2, "other"));
    build_output(&then, build_node(&then, "Concat", NAMES(y, rest), at_int("axis", 0)));
    build_output(&other, build_node(&other, "Neg", NAMES(y), NOTHING));
    c = NODE("ReduceMax", NAMES(y), at_int("keepdims", 0));
    c = NODE("Greater", NAMES(c, build_scalar(&n->b, 0.1f)), NOTHING);
    return linear(n, NODE("If", NAMES(c),
                          CAT(at_graph("then_branch", &then), at_graph("else_branch", &other))));
}

/* Weights that are dequantized on first use, because they are large. */
NETWORK(dequantized)
{
    enum { WIDE = 2048, TAPS = 5 };
    const char *y = NODE("Transpose", NAMES(linear(n, positive_rows(n, n->x))), NOTHING), *w;
    struct pare_tensor q = build_tensor(PARE_I8, INTS(WIDE, D, TAPS));

    for (int64_t i = 0; i < pare_numel(&q); i++)
        ((int8_t *)q.data)[i] = (int8_t)pare_rng_next(&n->r);
    w = build_const(&n->b, PARE_I8, INTS(WIDE, D, TAPS), q.data);
    w = NODE("DequantizeLinear", NAMES(w, build_scalar(&n->b, 0.01f)), NOTHING);
    y = NODE("Unsqueeze", NAMES(y, LIST(0)), NOTHING);
    return NODE("Conv", NAMES(y, w), at_ints("pads", INTS(2, 2)));
}

/* No layer: nodes run one by one. */
NETWORK(no_layer)
{
    return NODE("Relu", NAMES(positive_rows(n, n->x)), NOTHING);
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
    bool tail;
} nets[] = {
    { "once", once, true },
    { "again", again, true },
    { "joined", joined, true },
    { "body", body, true },
    { "dequantized", dequantized, true },
    { "no layer", no_layer, false },
};

#define NETS (sizeof(nets) / sizeof(*nets))

static struct pare_model *make_model(size_t i)
{
    static struct net n;

    net_begin(&n, 5, 0.5f);
    n.x = build_input(&n.b, PARE_F32, INTS(ROWS, D));
    build_output(&n.b, nets[i].make(&n));
    return build_model(&n.b);
}

/* Random rows, of which this many are positive. */
static struct pare_tensor make_rows(int positive, uint64_t seed)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ROWS, D));
    struct pare_rng r;

    pare_rng_init(&r, seed);
    rg_fill(&r, &x, 1);
    for (int i = 0; i < ROWS; i++)
        pare_f32_mut(&x)[i * D] = i < positive ? 1.0f : -1.0f;
    return x;
}

static struct pare_plan *make_plan(struct pare_model *m, bool reference)
{
    struct pare_plan_opts o = { .threads = 2, .reference = reference };
    struct pare_plan *p;

    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p, &err))
        fail_msg("%s", err.msg);
    return p;
}

static void test_results(void **state)
{
    static const int counts[] = { 5, 5, 1, 5, 12, 7, 1, 0, 5 };

    (void)state;
    for (size_t i = 0; i < NETS; i++) {
        struct pare_model *m = make_model(i);
        struct pare_plan *p = make_plan(m, false), *plain = make_plan(m, true);

        assert_int_equal(p->tails != NULL, nets[i].tail);
        for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
            struct pare_tensor x = make_rows(counts[k], k), got[2], want[2];
            int rc = pare_plan_execute(plain, &x, want, &err);

            assert_int_equal(pare_plan_execute(p, &x, got, &err), rc);
            for (int j = 0; j < m->graph->n_out && !rc; j++)
                if (pare_tensor_compare(&got[j], &want[j], (struct pare_tolerance){ 1e-5, 1e-5 },
                                        &err))
                    fail_msg("%s, %d rows: %s", nets[i].name, counts[k], err.msg);
        }
        pare_plan_free(p);
        pare_plan_free(plain);
        pare_model_free(m);
    }
}

/* The profile lists the steps of the tail. */
static void test_profile(void **state)
{
    struct pare_model *m = make_model(1);
    struct pare_plan *p = make_plan(m, false);
    struct pare_tensor x = make_rows(6, 1), y;
    struct pare_plan_stat *stat;
    int gemms = 0, n;

    (void)state;
    assert_int_equal(pare_plan_execute(p, &x, &y, &err), 0);
    n = pare_plan_stats(p, pool, &stat);
    for (int i = 0; i < n; i++) {
        assert_string_not_equal(stat[i].type, "Tail");
        gemms += !strcmp(stat[i].type, "Gemm");
    }
    assert_int_equal(gemms, 2);
    pare_plan_free(p);
    pare_model_free(m);
}

/* Values of the tail that the caller reads: there is no tail. */
static void test_observed(void **state)
{
    static struct net n;
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_tensor x = make_rows(4, 1), y;
    struct pare_model *m;
    struct pare_plan *p;
    const char *mid;

    (void)state;
    net_begin(&n, 5, 0.5f);
    n.x = build_input(&n.b, PARE_F32, INTS(ROWS, D));
    mid = linear(&n, positive_rows(&n, n.x));
    build_output(&n.b, build_node(&n.b, "Relu", NAMES(mid), NOTHING));
    m = build_model(&n.b);
    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o, .observe = { &mid, 1 } }, &p,
                        &err) ||
        pare_plan_execute(p, &x, &y, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pare_plan_value(p, 0)->dim[0], 4);
    pare_plan_free(p);
    pare_model_free(m);
}

/* Every allocation may fail, in planning and in a run. */
static void test_out_of_memory(void **state)
{
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_model *m = make_model(1);
    struct pare_tensor x[2] = { make_rows(6, 1), make_rows(3, 1) }, y;
    struct pare_plan *p = make_plan(m, false);
    int failures = 0;

    (void)state;
    for (int k = 1; build_plan_fails(m, &o, 0, -k, &failures); k++)
        ;
    assert_true(failures > 0);
    failures = 0;
    for (int k = 1;; k++) {
        int rc;

        pare_oom_countdown = k;
        rc = pare_plan_execute(p, &x[k % 2], &y, &err);
        pare_oom_countdown = 0;
        if (!rc)
            break;
        assert_int_equal(rc, PARE_ENOMEM);
        failures++;
    }
    assert_true(failures > 0);
    assert_int_equal(pare_plan_execute(p, &x[0], &y, &err), 0);
    pare_plan_free(p);
    pare_model_free(m);
}

static int setup(void **state)
{
    (void)state;
    pool = pare_arena_new(1 << 16);
    return pool ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_observed),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
