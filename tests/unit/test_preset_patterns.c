/* test_preset_patterns.c - presets int8 and int8-dynamic quantize nothing inside written-out
 * patterns: normalizations, activations, attention. */
#include "small_net.h"

#include <pare/compress.h>
#include <pare/data.h>

enum { ITEMS = 8, TOKENS = 6, WIDTH = 16, MOST = 32 };

static struct pare_err err;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* Values inside the pattern of the current network. */
static const char *inner[MOST];
static int n_inner;

static const char *inside(const char *v)
{
    assert_true(n_inner < MOST);
    return inner[n_inner++] = v;
}

static const char *op1(struct net *n, const char *type, const char *x)
{
    return inside(NODE(type, NAMES(x), NOTHING));
}

static const char *op2(struct net *n, const char *type, const char *a, const char *b)
{
    return inside(NODE(type, NAMES(a, b), NOTHING));
}

static const char *with(struct net *n, const char *type, const char *x, float v)
{
    return op2(n, type, x, build_scalar(&n->b, v));
}

static const char *linear(struct net *n, const char *x)
{
    return NODE("MatMul", NAMES(x, random_weight(n, INTS(WIDTH, WIDTH))), NOTHING);
}

static const char *mean(struct net *n, const char *x)
{
    return inside(NODE("ReduceMean", NAMES(x), at_ints("axes", INTS(-1))));
}

/* The result of the pattern is not inside. */
static const char *last(const char *v)
{
    n_inner--;
    return v;
}

static const char *root_mean_square(struct net *n, const char *d)
{
    return op1(n, "Sqrt", with(n, "Add", mean(n, op2(n, "Mul", d, d)), 1e-5f));
}

NETWORK(layer_norm)
{
    const char *d = op2(n, "Sub", n->x, mean(n, n->x));

    d = op2(n, "Div", d, root_mean_square(n, d));
    d = op2(n, "Mul", d, random_weight(n, INTS(WIDTH)));
    return last(op2(n, "Add", d, random_weight(n, INTS(WIDTH))));
}

NETWORK(rms_norm)
{
    const char *d = op2(n, "Div", n->x, root_mean_square(n, n->x));

    return last(op2(n, "Mul", d, random_weight(n, INTS(WIDTH))));
}

NETWORK(gelu)
{
    const char *y = with(n, "Add", op1(n, "Erf", with(n, "Div", n->x, 1.41421356f)), 1);

    return last(with(n, "Mul", op2(n, "Mul", n->x, y), 0.5f));
}

NETWORK(gelu_tanh)
{
    const char *y = with(n, "Mul", with(n, "Pow", n->x, 3), 0.044715f);

    y = op1(n, "Tanh", with(n, "Mul", op2(n, "Add", n->x, y), 0.79788456f));
    return last(with(n, "Mul", op2(n, "Mul", n->x, with(n, "Add", y, 1)), 0.5f));
}

NETWORK(swish)
{
    return last(op2(n, "Mul", n->x, op1(n, "Sigmoid", n->x)));
}

NETWORK(hard_swish)
{
    const char *y = with(n, "Add", n->x, 3);

    y = inside(NODE("Clip", NAMES(y, build_scalar(&n->b, 0), build_scalar(&n->b, 6)), NOTHING));
    return last(with(n, "Div", op2(n, "Mul", n->x, y), 6));
}

static const char *softmax(struct net *n, const char *x)
{
    return inside(NODE("Softmax", NAMES(x), at_int("axis", -1)));
}

/* Scale, a bias of positions that a layer computes, and Where. */
NETWORK(attention)
{
    const char *q = linear(n, n->x), *k = linear(n, n->x), *v = linear(n, n->x), *y, *bias;
    uint8_t keep[TOKENS * TOKENS];

    for (int i = 0; i < TOKENS * TOKENS; i++)
        keep[i] = i % TOKENS <= i / TOKENS;
    bias = NODE("MatMul", NAMES(n->x, random_weight(n, INTS(WIDTH, TOKENS))), NOTHING);
    k = NODE("Transpose", NAMES(k), at_ints("perm", INTS(0, 2, 1)));
    y = op2(n, "Add", with(n, "Div", op2(n, "MatMul", q, k), 4), bias);
    y = inside(NODE("Where",
                    NAMES(build_const(&n->b, PARE_BOOL, INTS(TOKENS, TOKENS), keep), y,
                          build_scalar(&n->b, -1e9f)),
                    NOTHING));
    return NODE("MatMul", NAMES(softmax(n, y), v), NOTHING);
}

/* Keys and values are constants: both products are linear layers, and the second one reads
 * probabilities, which are below half a step of 8 bits if there are many keys. */
NETWORK(memory)
{
    const char *y = op2(n, "MatMul", n->x, random_weight(n, INTS(WIDTH, 40)));

    y = softmax(n, with(n, "Mul", y, 0.25f));
    return NODE("MatMul", NAMES(y, random_weight(n, INTS(40, WIDTH))), NOTHING);
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
} nets[] = {
    { "layer normalization", layer_norm },
    { "RMS normalization", rms_norm },
    { "GELU", gelu },
    { "GELU with tanh", gelu_tanh },
    { "Swish", swish },
    { "HardSwish", hard_swish },
    { "attention", attention },
    { "attention to constants", memory },
};

/* A linear layer, the pattern, a linear layer. */
static struct pare_model *model_with(struct net *n, size_t i)
{
    const char *y;

    n_inner = 0;
    net_begin(n, i + 1, 0.4f);
    n->x = linear(n, build_input(&n->b, PARE_F32, INTS(-1, TOKENS, WIDTH)));
    y = nets[i].make(n);
    build_output(&n->b, linear(n, y));
    return build_model(&n->b);
}

/* How many nodes quantize a value, none of them one inside the pattern. */
static int count_quantized(const struct pare_model *m, const char *what, const char *preset)
{
    int count = 0;

    for (int i = 0; i < m->graph->n_nodes; i++) {
        const struct pare_node *n = m->graph->node[i];

        if (strcmp(n->type, "QuantizeLinear") && strcmp(n->type, "DynamicQuantizeLinear"))
            continue;
        count++;
        for (int k = 0; k < n_inner; k++)
            if (!strcmp(n->in[0]->name, inner[k]))
                fail_msg("%s: preset %s quantizes the result of %s", what, preset,
                         n->in[0]->maker->type);
    }
    return count;
}

static void test_nothing_inside_is_quantized(void **state)
{
    static const char *const presets[] = { "int8", "int8-dynamic" };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(nets) / sizeof(*nets); i++) {
        struct pare_quantize_opts o = { .size = sizeof(o), .preset = presets[i % 2] };
        struct pare_tensor x = build_tensor(PARE_F32, INTS(ITEMS, TOKENS, WIDTH));
        struct net n;
        struct pare_model *m = model_with(&n, i / 2), *q;
        struct pare_arrays a = { .n_inputs = 1, .n = ITEMS };
        struct pare_input in = { .t = x };

        rg_fill(&n.r, &in.t, 1);
        a.input = &in;
        ok(pare_data_from_arrays(&a, &o.tuning.data, &err));
        ok(pare_quantize(m, &o, &q, NULL, &err));
        assert_true(count_quantized(q, nets[i / 2].name, presets[i % 2]) > 0);
        pare_model_free(q);
        pare_model_free(m);
        pare_data_free(o.tuning.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_inside_is_quantized, make_pool, drop_pool),
    };

    return cmocka_run_group_tests_name("preset_patterns", tests, NULL, NULL);
}
