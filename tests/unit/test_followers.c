/* test_followers.c - dependency-aware pruning masks layer normalizations and embeddings with the
 * layers of their residual stream, and speedup removes those channels everywhere. */
#include "speedup_rig.h"

#include "compress/compression.h"
#include "compress/export.h"

enum { D = 8, WORDS = 11, PLACES = 64, HIDDEN = 12, CLASSES = 5 };

static const char *linear(struct net *n, const char *x, int64_t I, int64_t O)
{
    const char *w = WEIGHT(n, ALL, 1, I, O), *b = net_bias(n, ALL, O);

    return net_add(n, build_node(&n->b, "MatMul", NAMES(x, w), NOTHING), b);
}

static const char *norm(struct net *n, const char *x, bool written)
{
    struct bin mean = CAT(at_ints("axes", INTS(-1)), at_int("keepdims", 1));
    const char *scale = CONST(n, 1, 0.4f, D), *bias = CONST(n, 0.2f, 0.4f, D), *s;

    if (!written)
        return build_node(&n->b, "LayerNormalization", NAMES(x, scale, bias), NOTHING);
    x = build_node(&n->b, "Sub", NAMES(x, build_node(&n->b, "ReduceMean", NAMES(x), mean)),
                   NOTHING);
    s = build_node(&n->b, "Pow", NAMES(x, build_scalar(&n->b, 2)), NOTHING);
    s = net_add(n, build_node(&n->b, "ReduceMean", NAMES(s), mean), build_scalar(&n->b, 1e-3f));
    x = build_node(&n->b, "Div", NAMES(x, build_node(&n->b, "Sqrt", NAMES(s), NOTHING)), NOTHING);
    return net_add(n, build_node(&n->b, "Mul", NAMES(x, scale), NOTHING), bias);
}

/* Rows 0 .. T - 1 of a table, T the length of ids. */
static const char *positions(struct net *n, const char *ids)
{
    const char *shape = build_node(&n->b, "Shape", NAMES(ids), NOTHING), *t;
    int64_t zero = 0, one = 1;

    t = build_node(&n->b, "Gather", NAMES(shape, build_const(&n->b, PARE_I64, 0, NULL, &one)),
                   NOTHING);
    t = build_node(&n->b, "Range",
                   NAMES(build_const(&n->b, PARE_I64, 0, NULL, &zero), t,
                         build_const(&n->b, PARE_I64, 0, NULL, &one)),
                   NOTHING);
    return build_node(&n->b, "Gather", NAMES(CONST(n, 0, 1, PLACES, D), t), NOTHING);
}

/* A transformer without attention: x + layers of the normalized x, twice. */
static struct pare_model *make(bool written, bool pre, bool normalized_output)
{
    struct net n = net_new(5);
    const char *ids, *x, *y;

    n.b.opset = written ? 13 : 17;
    ids = build_input(&n.b, PARE_I64, INTS(-1, -1));
    x = build_node(&n.b, "Gather", NAMES(CONST(&n, 0, 1, WORDS, D), ids), NOTHING);
    x = net_add(&n, x, positions(&n, ids));
    for (int i = 0; i < 2; i++) {
        y = pre ? norm(&n, x, written) : x;
        y = linear(&n, net_relu(&n, linear(&n, y, D, HIDDEN)), HIDDEN, D);
        x = net_add(&n, x, y);
        x = pre ? x : norm(&n, x, written);
    }
    x = pre || normalized_output ? norm(&n, x, written) : x;
    build_output(&n.b, normalized_output ? x : linear(&n, x, D, CLASSES));
    return build_model(&n.b);
}

struct outcome {
    struct pare_model *m, *masked, *small;
    struct pare_speedup_report r;
};

static struct outcome shrink(struct pare_model *m)
{
    const struct pare_prune_opts o = { .pruner = "l1",
                                       .sparsity = 0.5,
                                       .settings = "mode=dependency_aware" };
    struct outcome x = { .m = m };
    struct pare_prune_report p;
    struct pare_err err;

    if (pare_prune(m, &o, &x.masked, &p, &err) ||
        pare_speedup(x.masked, &(struct pare_speedup_opts){ .threads = 1 }, pool, &x.small, &x.r,
                     &err))
        fail_msg("%s", err.msg);
    assert_true(x.r.verified);
    return x;
}

static void drop(struct outcome *x)
{
    pare_model_free(x->small);
    pare_model_free(x->masked);
    pare_model_free(x->m);
}

/* Every layer keeps half of its channels on both sides; scales and biases of normalizations keep
 * their size. */
static void test_stream_is_halved(void **state)
{
    int64_t norms, layers = 2 * (D / 2 * (HIDDEN / 2) * 2 + HIDDEN / 2 + D / 2);
    int64_t rest = (WORDS + PLACES) * D / 2 + D / 2 * CLASSES + CLASSES;

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct outcome x = shrink(make(i & 1, i & 2, false));

        norms = (i & 2 ? 3 : 2) * 2 * D;
        assert_int_equal(x.r.params_left, layers + rest + norms);
        drop(&x);
    }
}

/* A class token and positions, as in a vision transformer: tables that are moved and added. */
static struct pare_model *make_with_tables(void)
{
    struct net n = net_new(6);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 6, 5)), *shape, *token, *y;

    shape = build_node(&n.b, "Slice",
                       NAMES(build_node(&n.b, "Shape", NAMES(x), NOTHING),
                             build_ints(&n.b, INTS(0)), build_ints(&n.b, INTS(1))),
                       NOTHING);
    shape = build_node(&n.b, "Concat", NAMES(shape, build_ints(&n.b, INTS(1, 1))),
                       at_int("axis", 0));
    token = build_node(&n.b, "Expand", NAMES(CONST(&n, 0, 1, 1, 1, D), shape), NOTHING);
    x = build_node(&n.b, "Concat", NAMES(token, linear(&n, x, 5, D)), at_int("axis", 1));
    x = net_add(&n, x, CONST(&n, 0, 1, 1, 7, D));
    y = linear(&n, net_relu(&n, linear(&n, norm(&n, x, false), D, HIDDEN)), HIDDEN, D);
    build_output(&n.b, linear(&n, norm(&n, net_add(&n, x, y), false), D, CLASSES));
    return build_model(&n.b);
}

static void test_tables_follow(void **state)
{
    struct outcome x = shrink(make_with_tables());
    int64_t tables = D / 2 + 7 * D / 2, norms = 2 * 2 * D;

    (void)state;
    assert_int_equal(x.r.params_left, tables + norms + 6 * D / 2 + D * HIDDEN / 2 + HIDDEN / 2 +
                                          D / 2 + D / 2 * CLASSES + CLASSES);
    drop(&x);
}

/* A divisor of the stream is never masked: 0 / 0 is not a number. */
static void test_divisors_do_not_follow(void **state)
{
    struct net n = net_new(7);
    const char *x = linear(&n, build_input(&n.b, PARE_F32, INTS(-1, 6, 5)), 5, D);
    const struct pare_graph *g;
    struct outcome s;
    int found = 0;

    (void)state;
    x = build_node(&n.b, "Div", NAMES(x, CONST(&n, 2, 1, 6, D)), NOTHING);
    build_output(&n.b, linear(&n, norm(&n, x, false), D, CLASSES));
    s = shrink(build_model(&n.b));
    g = s.masked->graph;
    for (int i = 0; i < g->n_values; i++) {
        const struct pare_tensor *t = &g->value[i]->t;

        if (t->rank != 2 || t->dim[0] != 6 || t->dim[1] != D || !t->data)
            continue;
        found++;
        for (int64_t k = 0; k < pare_numel(t); k++)
            assert_true(pare_f32(t)[k] != 0);
    }
    assert_int_equal(found, 1);
    drop(&s);
}

/* The model's output keeps all channels: its normalization does not follow. */
static void test_output_is_not_masked(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct outcome x = shrink(make(i & 1, i & 2, true));
        const struct pare_graph *g = x.masked->graph;
        int zeros = 0, lists = 0;

        for (int k = 0; k < g->n_values; k++) {
            const struct pare_value *v = g->value[k];
            int here = 0;

            if (v->t.rank != 1 || v->t.dim[0] != D || !v->t.data || v->t.dtype != PARE_F32)
                continue;
            for (int c = 0; c < D; c++)
                here += pare_f32(&v->t)[c] == 0;
            lists++;
            zeros += here > 0;
        }
        assert_true(lists >= 6);
        assert_int_equal(lists - zeros, 2); /* scale and bias of the last normalization */
        drop(&x);
    }
}

static struct pare_compression *open_pruning(struct pare_model *m, const char *config,
                                             const char *settings)
{
    struct pare_compression_opts o = { .pruner = "l1", .config = config, .settings = settings };
    struct pare_compression *c;
    struct pare_err err;

    if (pare_compression_new(m, &o, &c, &err))
        fail_msg("%s", err.msg);
    return c;
}

/* Followers are layers of the compression in mode dependency_aware; an excluded type is not. */
static void test_which_layers_follow(void **state)
{
    static const struct {
        const char *settings, *config;
        int layers;
    } row[] = {
        { "mode=dependency_aware", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", 5 + 2 + 3 },
        { "mode=normal", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", 5 },
        { "mode=dependency_aware",
          "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]},"
          " {\"exclude\": true, \"op_types\": [\"LayerNorm\"]}]",
          5 + 2 },
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_model *m = make(false, true, false);
        struct pare_compression *c = open_pruning(m, row[i].config, row[i].settings);

        assert_int_equal(pare_compression_layers(c), row[i].layers);
        pare_compression_free(c);
        pare_model_free(m);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_stream_is_halved),     T(test_tables_follow),       T(test_divisors_do_not_follow),
        T(test_output_is_not_masked), T(test_which_layers_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
