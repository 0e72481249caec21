/* test_shared_train.c - training where a step reads the same memory twice, and unusual biases,
 * against the reference kernels. */
#include "random_graph_more.h"

#include "plan/plan.h"
#include "tensor/compare.h"

enum { SIDE = 64, MAX_TENSORS = 8 };

struct net {
    struct build b;
    struct pare_rng r;
    const char *x; /* (64, 64) */
};

#define NODE(type, names, attrs) build_node(&n->b, type, names, attrs)
#define NETWORK(name) static const char *name(struct net *n)

static const char *random_weight(struct net *n, int rank, const int64_t *dim)
{
    struct pare_tensor w = build_tensor(PARE_F32, rank, dim);

    rg_fill(&n->r, &w, 0.5f);
    return build_floats(&n->b, rank, dim, w.data);
}

static const char *hidden(struct net *n)
{
    return NODE("Mul", NAMES(n->x, random_weight(n, INTS(SIDE))), NOTHING);
}

/* ---- networks with a (64, 64) result -------------------------------------------------------- */

NETWORK(usual)
{
    return NODE("Gemm",
                NAMES(hidden(n), random_weight(n, INTS(SIDE, SIDE)), random_weight(n, INTS(SIDE))),
                at_int("transB", 1));
}

/* A bias per row, of a square result. */
NETWORK(bias_of_rows)
{
    return NODE("Gemm",
                NAMES(hidden(n), random_weight(n, INTS(SIDE, SIDE)),
                      random_weight(n, INTS(SIDE, 1))),
                NOTHING);
}

NETWORK(squared)
{
    const char *h = hidden(n);

    return NODE("MatMul", NAMES(h, h), NOTHING);
}

/* Both operands, and their gradients, share memory. */
NETWORK(same_memory)
{
    const char *h = hidden(n);
    const char *w = NODE("Reshape", NAMES(h, build_ints(&n->b, INTS(SIDE, SIDE))), NOTHING);

    return NODE("Gemm", NAMES(h, w, random_weight(n, INTS(1, SIDE))), at_int("transB", 1));
}

static const char *reshape(struct net *n, const char *x, int rank, const int64_t *dim)
{
    return NODE("Reshape", NAMES(x, build_ints(&n->b, rank, dim)), NOTHING);
}

/* BatchNormalization of 8 channels; one: scale and bias are the same parameter. */
static const char *norm(struct net *n, const char *x, bool one)
{
    const float ones[] = { 1, 1, 1, 1, 1, 1, 1, 1 }, zeros[8] = { 0 };
    const char *mean = build_floats(&n->b, INTS(8), zeros);
    const char *var = build_floats(&n->b, INTS(8), ones);
    const char *scale = random_weight(n, INTS(8)), *bias = one ? scale : random_weight(n, INTS(8));

    return NODE("BatchNormalization", NAMES(x, scale, bias, mean, var), NOTHING);
}

NETWORK(norm_twice)
{
    const char *x = reshape(n, hidden(n), INTS(4, 8, 8, 16));

    return reshape(n, NODE("Add", NAMES(norm(n, x, false), x), NOTHING), INTS(SIDE, SIDE));
}

NETWORK(norm_and_relu)
{
    const char *x = reshape(n, hidden(n), INTS(4, 8, 8, 16));

    x = NODE("Relu", NAMES(NODE("Add", NAMES(x, norm(n, x, false)), NOTHING)), NOTHING);
    return reshape(n, x, INTS(SIDE, SIDE));
}

/* The summand is another value in the same memory, which has other consumers. */
NETWORK(norm_of_view)
{
    const char *h = hidden(n), *x = reshape(n, h, INTS(4, 8, 8, 16));
    const char *z = reshape(n, h, INTS(4, 8, 8, 16));

    x = NODE("Add", NAMES(norm(n, x, false), z), NOTHING);
    return NODE("Add", NAMES(reshape(n, x, INTS(SIDE, SIDE)), h), NOTHING);
}

NETWORK(norm_of_one)
{
    const char *x = reshape(n, hidden(n), INTS(4, 8, 8, 16));

    return reshape(n, norm(n, x, true), INTS(SIDE, SIDE));
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
} nets[] = {
    { "usual", usual },
    { "bias of rows", bias_of_rows },
    { "squared", squared },
    { "same memory", same_memory },
    { "norm twice", norm_twice },
    { "norm and relu", norm_and_relu },
    { "norm of a view", norm_of_view },
    { "norm of one parameter", norm_of_one },
};

/* ---- comparison ----------------------------------------------------------------------------- */

static struct pare_err err;

static struct pare_model *make_model(size_t i)
{
    struct net n = { .b = { .opset = 17 } };

    pare_rng_init(&n.r, 5);
    n.x = build_input(&n.b, PARE_F32, INTS(SIDE, SIDE));
    build_output(&n.b, nets[i].make(&n));
    return build_model(&n.b);
}

/* Computes the result, and gradients of all weights for a loss of the first `rows` rows. */
static int compute_gradients(size_t net, const struct pare_tensor *x, bool reference, int64_t rows,
                             struct pare_tensor got[MAX_TENSORS])
{
    struct pare_model *m = make_model(net);
    const char *names[MAX_TENSORS];
    struct pare_plan_opts o = { .threads = 2, .in = x, .reference = reference };
    struct pare_plan_train train = { .names = names, .grad = got + 1 };
    struct pare_plan_build build = { .opts = &o, .train = &train };
    struct pare_tensor out[1];
    struct pare_plan *p;

    for (int i = 0; i < m->graph->n_values; i++) {
        struct pare_value *v = m->graph->value[i];

        if (!(v->flags & PARE_V_CONST) || v->t.dtype != PARE_F32)
            continue;
        assert_true(train.n_names + 1 < MAX_TENSORS);
        assert_int_equal(pare_model_own(m, v, &err), 0);
        got[train.n_names + 1] = build_tensor(PARE_F32, v->t.rank, v->t.dim);
        names[train.n_names++] = v->name;
    }
    if (pare_plan_build(m, &build, &p, &err) || pare_plan_execute(p, x, out, &err))
        fail_msg("%s: %s", nets[net].name, err.msg);
    got[0] = build_copy(&out[0]);
    for (int64_t k = 0; k < SIDE * SIDE; k++)
        pare_plan_out_grad(p)[k] = k < rows * SIDE ? 0.01f * (float)(k % 17 + 1) : 0;
    assert_int_equal(pare_plan_backward(p, &err), 0);
    pare_plan_free(p);
    pare_model_free(m);
    return train.n_names + 1;
}

static void test_gradients_match_reference(void **state)
{
    static const int64_t rows[] = { SIDE, 3, 0 }; /* all, few, none */
    struct pare_tensor x = build_tensor(PARE_F32, INTS(SIDE, SIDE)), want[MAX_TENSORS],
                       got[MAX_TENSORS];
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    rg_fill(&r, &x, 1);
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++)
        for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
            int n = compute_gradients(i, &x, true, rows[k], want);

            assert_int_equal(compute_gradients(i, &x, false, rows[k], got), n);
            for (int j = 0; j < n; j++)
                if (pare_tensor_compare(&got[j], &want[j], (struct pare_tolerance){ 1e-4, 1e-4 },
                                        &err))
                    fail_msg("%s, %d rows, %s %d: %s", nets[i].name, (int)rows[k],
                             j ? "gradient" : "result", j, err.msg);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gradients_match_reference, make_pool, drop_pool),
    };

    return cmocka_run_group_tests_name("shared_train", tests, NULL, NULL);
}
