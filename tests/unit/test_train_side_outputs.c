/* test_train_side_outputs.c - training of graphs with nodes that the loss does not depend on. */
#include "random_graph_more.h"

#include "plan/plan.h"
#include "tensor/compare.h"
#include "train/train_options.h"

enum { ITEMS = 2, CHANNELS = 16, SIDE = 8, CLASSES = 8, MAX_TENSORS = 16 };

struct net {
    struct build b;
    struct pare_rng r;
    const char *maps, *logits; /* (2, 16, 8, 8), (2, 8): the loss is of these */
};

#define NODE(type, names, attrs) build_node(&n->b, type, names, attrs)
#define NETWORK(name) static const char *name(struct net *n)

static const char *random_weight(struct net *n, int rank, const int64_t *dim)
{
    struct pare_tensor w = build_tensor(PARE_F32, rank, dim);

    rg_fill(&n->r, &w, 0.5f);
    return build_floats(&n->b, rank, dim, w.data);
}

static const char *add_conv(struct net *n, const char *x)
{
    const char *w = random_weight(n, INTS(CHANNELS, CHANNELS, 3, 3));

    return NODE("Conv", NAMES(x, w, random_weight(n, INTS(CHANNELS))),
                at_ints("pads", INTS(1, 1, 1, 1)));
}

/* ---- side outputs -------------------------------------------------------------------------- */

NETWORK(softmax)
{
    return NODE("Softmax", NAMES(n->logits), NOTHING);
}

NETWORK(map)
{
    return NODE("Tanh", NAMES(n->maps), NOTHING);
}

NETWORK(map_of_two)
{
    return NODE("Mul", NAMES(n->maps, n->maps), NOTHING);
}

NETWORK(filters)
{
    return add_conv(n, n->maps);
}

NETWORK(product)
{
    const char *x = NODE("Flatten", NAMES(n->maps), NOTHING);

    return NODE("MatMul", NAMES(x, random_weight(n, INTS(CHANNELS * SIDE * SIDE, 4))), NOTHING);
}

/* Transposed feature maps. */
NETWORK(transposed)
{
    return NODE("Transpose", NAMES(n->maps), at_ints("perm", INTS(0, 2, 3, 1)));
}

NETWORK(pooled)
{
    return NODE("MaxPool", NAMES(n->maps), at_ints("kernel_shape", INTS(2, 2)));
}

NETWORK(itself)
{
    return n->maps;
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
} nets[] = {
    { "softmax", softmax }, { "map", map },         { "map of two", map_of_two },
    { "filters", filters }, { "product", product }, { "transposed", transposed },
    { "pooled", pooled },   { "itself", itself },
};

/* ---- comparison ----------------------------------------------------------------------------- */

static struct pare_err err;

static struct pare_model *make_model(size_t i)
{
    struct net n = { .b = { .opset = 13 } };
    const char *x, *y;

    pare_rng_init(&n.r, 5);
    x = build_input(&n.b, PARE_F32, INTS(ITEMS, CHANNELS, SIDE, SIDE));
    n.maps = add_conv(&n, x);
    y = build_node(&n.b, "GlobalAveragePool", NAMES(add_conv(&n, n.maps)), NOTHING);
    y = build_node(&n.b, "Flatten", NAMES(y), NOTHING);
    n.logits = build_node(&n.b, "MatMul", NAMES(y, random_weight(&n, INTS(CHANNELS, CLASSES))),
                          NOTHING);
    build_output(&n.b, n.logits);
    build_output(&n.b, nets[i].make(&n));
    return build_model(&n.b);
}

/* Computes both outputs, and gradients of all weights. */
static int compute_gradients(size_t net, const struct pare_tensor *x, bool reference, bool tune,
                             struct pare_tensor got[MAX_TENSORS])
{
    struct pare_model *m = make_model(net);
    const char *names[MAX_TENSORS];
    struct pare_plan_opts o = { .threads = 2, .in = x, .reference = reference, .tune = tune };
    struct pare_plan_train train = { .names = names, .grad = got + 2 };
    struct pare_plan_build build = { .opts = &o, .train = &train };
    struct pare_tensor out[2];
    struct pare_plan *p;

    for (int i = 0; i < m->graph->n_values; i++) {
        struct pare_value *v = m->graph->value[i];

        if (!(v->flags & PARE_V_CONST) || v->t.dtype != PARE_F32)
            continue;
        assert_true(train.n_names + 2 < MAX_TENSORS);
        assert_int_equal(pare_model_own(m, v, &err), 0);
        got[train.n_names + 2] = build_tensor(PARE_F32, v->t.rank, v->t.dim);
        names[train.n_names++] = v->name;
    }
    if (pare_plan_build(m, &build, &p, &err) || pare_plan_execute(p, x, out, &err))
        fail_msg("%s: %s", nets[net].name, err.msg);
    for (int i = 0; i < 2; i++)
        got[i] = build_copy(&out[i]);
    for (int64_t k = 0; k < ITEMS * CLASSES; k++)
        pare_plan_out_grad(p)[k] = 0.1f * (float)(k % 17 + 1);
    assert_int_equal(pare_plan_backward(p, &err), 0);
    for (int i = 0; i < p->n_params; i++)
        assert_true(p->param[i].last < 0 || p->step[p->param[i].last]->runs_backward);
    pare_plan_free(p);
    pare_model_free(m);
    return train.n_names + 2;
}

static void compare_with_reference(bool tune)
{
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, CHANNELS, SIDE, SIDE));
    struct pare_tensor want[MAX_TENSORS], got[MAX_TENSORS];
    struct pare_rng r;

    pare_rng_init(&r, 1);
    rg_fill(&r, &x, 1);
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
        int n = compute_gradients(i, &x, true, false, want);

        assert_int_equal(compute_gradients(i, &x, false, tune, got), n);
        for (int k = 0; k < n; k++)
            if (pare_tensor_compare(&got[k], &want[k], (struct pare_tolerance){ 1e-3, 1e-3 }, &err))
                fail_msg("%s, %s %d: %s", nets[i].name, k < 2 ? "result" : "gradient", k, err.msg);
    }
}

static void test_gradients_of_untuned_plans(void **state)
{
    (void)state;
    compare_with_reference(false);
}

static void test_gradients_of_tuned_plans(void **state)
{
    (void)state;
    compare_with_reference(true);
}

/* Parameters of the side output keep their values in spite of weight decay, as in PyTorch. */
static void test_idle_parameters_are_not_updated(void **state)
{
    struct pare_given set[] = { { "optimizer", "sgd" }, { "weight_decay", "0.5" } };
    struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, CHANNELS, SIDE, SIDE));
    struct pare_tensor y = build_tensor(PARE_I64, INTS(ITEMS)), was[MAX_TENSORS];
    struct pare_model *m = make_model(4); /* product */
    struct pare_train_options *o;
    struct pare_trainer *t;
    struct pare_score score;
    int n_idle = 0;

    (void)state;
    memset(y.data, 0, ITEMS * sizeof(int64_t));
    rg_fill(&(struct pare_rng){ 0 }, &x, 1);
    assert_int_equal(pare_train_options_make(set, 2, false, pool, &o, &err), 0);
    assert_int_equal(pare_trainer_new(m, &o->trainer, &t, &err), 0);
    assert_true(t->n_params < MAX_TENSORS);
    for (int i = 0; i < t->n_params; i++)
        was[i] = build_copy(&t->param[i].value);
    assert_int_equal(pare_trainer_gradient(t, &x, &y, &score, &err), 0);
    assert_int_equal(pare_trainer_update(t, 0.1, &err), 0);
    for (int i = 0; i < t->n_params; i++) {
        bool idle = t->optim->o.param[i].idle;
        size_t bytes = (size_t)pare_numel(&was[i]) * sizeof(float);

        n_idle += idle;
        assert_int_equal(memcmp(was[i].data, t->optim->o.param[i].value.data, bytes) == 0, idle);
    }
    assert_int_equal(n_idle, 1);
    pare_trainer_free(t);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gradients_of_untuned_plans, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_gradients_of_tuned_plans, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_idle_parameters_are_not_updated, make_pool, drop_pool),
    };

    return cmocka_run_group_tests_name("train_side_outputs", tests, NULL, NULL);
}
