/* test_attention_channels.c - channels of written-out attention: queries and keys lose the same
 * channels of each head, so do values and the layer after them; keys that are inputs of the model
 * lose none, and are selected for the queries. */
#include "speedup_rig.h"

enum { HEADS = 3, DIM = 4, E = HEADS * DIM, WIDTH = 10 };

static const char *binary(struct net *n, const char *type, const char *a, const char *b)
{
    return build_node(&n->b, type, NAMES(a, b), NOTHING);
}

static const char *linear(struct net *n, const char *x, int which, int64_t in, int64_t out)
{
    return binary(n, "MatMul", x, WEIGHT(n, which, 1, in, out));
}

static const char *transpose(struct net *n, const char *x, int rank, const int64_t *perm)
{
    return build_node(&n->b, "Transpose", NAMES(x), at_ints("perm", rank, perm));
}

/* (N, T, E) as (N, T, HEADS, DIM); sizes of free dimensions are copied. */
static const char *heads(struct net *n, const char *x)
{
    return binary(n, "Reshape", x, build_ints(&n->b, INTS(0, 0, HEADS, DIM)));
}

static const char *softmax(struct net *n, const char *x)
{
    return build_node(&n->b, "Softmax", NAMES(x), at_int("axis", -1));
}

static const char *merge(struct net *n, const char *x)
{
    return binary(n, "Reshape", x, build_ints(&n->b, INTS(0, 0, -1)));
}

/* ---- pruning ----------------------------------------------------------------------------- */

enum spelling { SCALED_SCORES, SCALED_QUERIES, SCALED_BOTH, MASKED, WHERE, EINSUM, SPELLINGS };

static const char *by_einsum(struct net *n, const char *q, const char *k, const char *v)
{
    const char *y = build_node(&n->b, "Einsum", NAMES(q, k),
                               at_text("equation", "bqhd,bkhd->bhqk"));

    y = softmax(n, binary(n, "Div", y, build_scalar(&n->b, 2)));
    return build_node(&n->b, "Einsum", NAMES(y, v), at_text("equation", "bhqk,bkhd->bqhd"));
}

static const char *attend(struct net *n, enum spelling how, const char *q, const char *k,
                          const char *v)
{
    const char *factor = build_scalar(&n->b, 0.7f), *y;

    if (how == EINSUM)
        return by_einsum(n, q, k, v);
    q = transpose(n, q, INTS(0, 2, 1, 3));
    k = transpose(n, k, INTS(0, 2, 3, 1));
    if (how == SCALED_QUERIES || how == SCALED_BOTH)
        q = binary(n, "Mul", q, factor);
    if (how == SCALED_BOTH)
        k = binary(n, "Div", k, factor);
    y = binary(n, "MatMul", q, k);
    if (how == SCALED_SCORES || how == MASKED)
        y = binary(n, "Mul", y, factor);
    if (how == MASKED)
        y = binary(n, "Add", y, build_input(&n->b, PARE_F32, INTS(-1, 1, 1, -1)));
    if (how == WHERE)
        y = build_node(&n->b, "Where",
                       NAMES(build_input(&n->b, PARE_BOOL, INTS(-1, 1, 1, -1)), y,
                             build_scalar(&n->b, -1e4f)),
                       NOTHING);
    y = binary(n, "MatMul", softmax(n, y), transpose(n, v, INTS(0, 2, 1, 3)));
    return transpose(n, y, INTS(0, 2, 1, 3));
}

static int64_t width_of(const struct pare_model *m, const struct pare_model_layer *l, int axis)
{
    const struct pare_value *w = pare_graph_find(m->graph, l->weight);

    assert_non_null(w);
    return w->t.dim[axis];
}

/* Half of all channels: two of each head. */
static void test_pruned_attention(void **state)
{
    (void)state;
    for (int how = 0; how < SPELLINGS; how++) {
        struct pare_prune_opts o = { .size = sizeof(o), .sparsity = 0.5, .speedup = true };
        struct net n = net_new((uint64_t)how + 3);
        const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1, WIDTH)), *part[3], *y;
        const struct pare_model_layer *l;
        struct pare_model *m, *small;
        struct pare_err err;
        int layers;

        for (int i = 0; i < 3; i++)
            part[i] = heads(&n, linear(&n, x, ALL, WIDTH, E));
        y = merge(&n, attend(&n, (enum spelling)how, part[0], part[1], part[2]));
        build_output(&n.b, linear(&n, y, ALL, E, WIDTH));
        m = build_model(&n.b);
        if (pare_prune(m, &o, &small, NULL, &err))
            fail_msg("%s", err.msg);
        if (pare_model_list_layers(small, pool, &l, &layers, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(layers, 4);
        for (int i = 0; i < 3; i++)
            if (width_of(small, &l[i], 1) != E / 2)
                fail_msg("spelling %d: layer %d has %lld channels left", how, i,
                         (long long)width_of(small, &l[i], 1));
        assert_int_equal(width_of(small, &l[3], 0), E / 2);
        pare_model_free(small);
        pare_model_free(m);
    }
}

/* ---- a cache of keys --------------------------------------------------------------------- */

static int count(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

/* Keys and values are inputs (N, HEADS, S, DIM).  turned: keys are the first operand. */
static void expect_selected(int which, bool turned, int64_t left, int selections)
{
    struct net n = net_new(7);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1, WIDTH)), *q, *y;
    const char *k = build_input(&n.b, PARE_F32, INTS(-1, HEADS, -1, DIM));
    const char *v = build_input(&n.b, PARE_F32, INTS(-1, HEADS, -1, DIM));
    struct speedup_result s;

    q = heads(&n, linear(&n, x, which, WIDTH, E));
    if (turned) {
        y = binary(&n, "MatMul", k, transpose(&n, q, INTS(0, 2, 3, 1)));
        y = transpose(&n, y, INTS(0, 1, 3, 2));
    } else {
        y = binary(&n, "MatMul", transpose(&n, q, INTS(0, 2, 1, 3)),
                   transpose(&n, k, INTS(0, 1, 3, 2)));
    }
    y = binary(&n, "MatMul", softmax(&n, y), v);
    build_output(&n.b, linear(&n, merge(&n, transpose(&n, y, INTS(0, 2, 1, 3))), ALL, E, 2));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), left);
    assert_int_equal(count(s.after, "Gather"), selections);
    speedup_free(&s);
}

/* Channels that all heads lose are removed, others are kept: the head of a channel is an axis of
 * the keys. */
static void test_keys_of_a_cache_are_selected(void **state)
{
    (void)state;
    expect_selected(HALF, false, E / 2, 1);
    expect_selected(HALF, true, E / 2, 1);
    expect_selected(FRONT, false, E, 0);
    expect_selected(ALL, false, E, 0);
}

/* The keys of a layer that are an output as well: the layer keeps them, the queries do not. */
static void test_keys_that_are_outputs(void **state)
{
    struct net n = net_new(8);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1, WIDTH)), *q, *k, *y;

    (void)state;
    q = transpose(&n, heads(&n, linear(&n, x, HALF, WIDTH, E)), INTS(0, 2, 1, 3));
    k = transpose(&n, heads(&n, linear(&n, x, ALL, WIDTH, E)), INTS(0, 2, 1, 3));
    build_output(&n.b, k);
    y = binary(&n, "MatMul", q, transpose(&n, k, INTS(0, 1, 3, 2)));
    EXPECT(&n, softmax(&n, y), E / 2, E);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pruned_attention),
        TEST(test_keys_of_a_cache_are_selected),
        TEST(test_keys_that_are_outputs),
    };

    return cmocka_run_group_tests_name("attention_channels", tests, NULL, NULL);
}
