/* test_widen_half.c - plans compute in float32 what a model computes in half precision. */
#include "small_net.h"

#include "plan/plan.h"
#include "tensor/compare.h"

static struct pare_err err;

enum { N = 2, C = 16, S = 10 };

static const char *cast(struct net *n, const char *x, enum pare_dtype to)
{
    return NODE("Cast", NAMES(x), at_int("to", to));
}

static const char *conv(struct net *n, const char *x, enum pare_dtype type)
{
    return NODE("Conv",
                NAMES(x, cast(n, random_weight(n, INTS(C, C, 3, 3)), type),
                      cast(n, random_weight(n, INTS(C)), type)),
                at_ints("pads", INTS(1, 1, 1, 1)));
}

/* Half precision inside. */
NETWORK(inside)
{
    const char *y = cast(n, n->x, PARE_F16);

    y = NODE("Relu", NAMES(conv(n, y, PARE_F16)), NOTHING);
    y = NODE("Add", NAMES(y, conv(n, y, PARE_F16)), NOTHING);
    return cast(n, y, PARE_F32);
}

/* The output is half, and a value that is an output as well is read again. */
NETWORK(half_output)
{
    const char *y = NODE("Relu", NAMES(conv(n, cast(n, n->x, PARE_F16), PARE_F16)), NOTHING);

    build_output(&n->b, y);
    return conv(n, y, PARE_F16);
}

NETWORK(bfloat16)
{
    return NODE("Relu", NAMES(conv(n, cast(n, n->x, PARE_BF16), PARE_BF16)), NOTHING);
}

/* A body reads a value of half precision, and makes one. */
NETWORK(body)
{
    const char *y = conv(n, cast(n, n->x, PARE_F16), PARE_F16), *c;
    struct build then = { .opset = n->b.opset, .prefix = "then_" };
    struct build other = { .opset = n->b.opset, .prefix = "other_" };

    build_put(&then, text(2, "then"));
    build_put(&other, text(2, "other"));
    build_output(&then, build_node(&then, "Tanh", NAMES(y), NOTHING));
    build_output(&other, build_node(&other, "Neg", NAMES(y), NOTHING));
    c = NODE("ReduceMax", NAMES(n->x), at_int("keepdims", 0));
    c = NODE("Greater", NAMES(c, build_scalar(&n->b, 0)), NOTHING);
    y = NODE("If", NAMES(c), CAT(at_graph("then_branch", &then), at_graph("else_branch", &other)));
    return conv(n, y, PARE_F16);
}

/* No layer computes in half precision: the cast rounds on purpose. */
NETWORK(rounding)
{
    return cast(n, cast(n, n->x, PARE_F16), PARE_F32);
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
    double tolerance;
    int convs; /* that run in float32 */
} nets[] = {
    { "inside", inside, 5e-3, 2 },     { "output", half_output, 5e-3, 2 },
    { "bfloat16", bfloat16, 5e-2, 1 }, { "body", body, 5e-3, 2 },
    { "rounding", rounding, 0, 0 },
};

#define NETS (sizeof(nets) / sizeof(*nets))

static struct pare_model *make_model(size_t i)
{
    static struct net n;

    net_begin(&n, 3, 0.1f);
    n.x = build_input(&n.b, PARE_F32, INTS(N, C, S, S));
    build_output(&n.b, nets[i].make(&n));
    return build_model(&n.b);
}

static int convs_in_float(const struct pare_plan *p)
{
    int count = 0;

    for (int i = 0; i < p->graph->n_nodes; i++) {
        const struct pare_node *n = p->graph->node[i];

        if (!strcmp(n->type, "Conv"))
            count += n->in[0]->t.dtype == PARE_F32 && n->in[1]->t.dtype == PARE_F32;
    }
    return count;
}

static void test_results(void **state)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(N, C, S, S));
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    rg_fill(&r, &x, 1);
    for (size_t i = 0; i < NETS; i++) {
        struct pare_model *m = make_model(i);
        struct pare_tensor got[2], want[2];
        struct pare_plan *p[2];

        for (int k = 0; k < 2; k++) {
            struct pare_plan_opts o = { .threads = 1, .reference = k };
            struct pare_tensor *y = k ? want : got;

            if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p[k], &err) ||
                pare_plan_execute(p[k], &x, y, &err))
                fail_msg("%s: %s", nets[i].name, err.msg);
        }
        for (int k = 0; k < m->graph->n_out; k++)
            if (pare_tensor_compare(&got[k], &want[k],
                                    (struct pare_tolerance){ nets[i].tolerance, nets[i].tolerance },
                                    &err))
                fail_msg("%s, output %d: %s", nets[i].name, k, err.msg);
        assert_int_equal(convs_in_float(p[0]), nets[i].convs);
        assert_int_equal(convs_in_float(p[1]), 0);
        pare_plan_free(p[0]);
        pare_plan_free(p[1]);
        pare_model_free(m);
    }
}

/* Every allocation may fail. */
static void test_out_of_memory(void **state)
{
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_model *m = make_model(1);
    int failures = 0;

    (void)state;
    for (int k = 1; build_plan_fails(m, &o, 0, -k, &failures); k++)
        ;
    assert_true(failures > 0);
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
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
