/* test_patterns.c - the canonical pass: spellings of normalizations and activations are found, mean
 * the same, and lose channels like the operator that they spell out. */
#include "speedup_rig.h"

#include <math.h>

#include "graph/pattern/pattern.h"
#include "op/op.h"

enum { ROWS = 6, WIDTH = 8 };

struct spelling {
    struct net n;
    const char *x;
    bool flat; /* x is a matrix */
};

static struct spelling begin(int opset, uint64_t seed)
{
    struct spelling s = { .n = net_new(seed) };

    s.n.b.opset = opset;
    s.x = build_input(&s.n.b, PARE_F32, INTS(2, ROWS, WIDTH));
    return s;
}

static const char *node1(struct spelling *s, const char *type, const char *x)
{
    return build_node(&s->n.b, type, NAMES(x), NOTHING);
}

/* Operands of Add and Mul in random order. */
static const char *node2(struct spelling *s, const char *type, const char *a, const char *b)
{
    bool swap = (!strcmp(type, "Add") || !strcmp(type, "Mul")) && pare_rng_below(&s->n.r, 2);

    return build_node(&s->n.b, type, NAMES(swap ? b : a, swap ? a : b), NOTHING);
}

static const char *number(struct spelling *s, double v)
{
    return build_scalar(&s->n.b, (float)v);
}

static int pick(struct spelling *s, int n)
{
    return (int)pare_rng_below(&s->n.r, (uint64_t)n);
}

/* ---- what the pass finds ----------------------------------------------------------------- */

/* The graph after the pass; *n: the nodes of that type that replace others. */
static void found(struct spelling *s, const char *type, int *n)
{
    struct pare_model *m = build_model(&s->n.b);
    struct pare_graph *g;
    struct pare_err err;

    *n = 0;
    g = pare_graph_clone(pool, m->graph, &err);
    assert_non_null(g);
    assert_int_equal(pare_graph_infer(g, false, &err), 0);
    assert_int_equal(pare_graph_canonical(g, PARE_PATTERN_ROWS, &err), 0);
    assert_int_equal(pare_graph_canonical(g, PARE_PATTERN_POINTWISE, &err), 0);
    for (int i = 0; i < g->n_nodes; i++)
        *n += g->node[i]->n_parts > 1 && !strcmp(g->node[i]->type, type);
    pare_model_free(m);
}

static struct pare_tensor run(const struct pare_model *m, const struct pare_tensor *in,
                              bool reference)
{
    struct pare_plan_opts o = { .threads = 1, .in = in, .reference = reference };
    struct pare_tensor out, keep;
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_make(m, &o, &p, &err) || pare_plan_execute(p, in, &out, &err))
        fail_msg("%s", err.msg);
    keep = build_copy(&out);
    pare_plan_free(p);
    return keep;
}

/* A plan, which runs the pass, computes what the reference kernels of the spelled nodes do. */
static void check_same(struct spelling *s, const char *what)
{
    struct pare_tensor in = net_random(&s->n, 0.5f, 4, INTS(2, ROWS, WIDTH)), a, b;
    struct pare_model *m = build_model(&s->n.b);

    a = run(m, &in, false);
    b = run(m, &in, true);
    for (int64_t i = 0; i < pare_numel(&a); i++)
        if (!(fabsf(pare_f32(&a)[i] - pare_f32(&b)[i]) < 5e-5f))
            fail_msg("%s: %g, expected %g", what, (double)pare_f32(&a)[i], (double)pare_f32(&b)[i]);
    pare_model_free(m);
}

static void expect(struct spelling *s, const char *y, const char *type, int want)
{
    int n;

    build_output(&s->n.b, y);
    found(s, type, &n);
    if (n != want)
        fail_msg("%d of %d found: %s", n, want, type);
    check_same(s, type);
}

/* ---- normalizations ----------------------------------------------------------------- */

static const char *mean(struct spelling *s, const char *x)
{
    return s->n.b.opset < 18
               ? build_node(&s->n.b, "ReduceMean", NAMES(x), at_ints("axes", INTS(-1)))
               : build_node(&s->n.b, "ReduceMean", NAMES(x, build_ints(&s->n.b, INTS(-1))),
                            NOTHING);
}

/* d / sqrt(mean(square of d2) + epsilon), spelled at random. */
static const char *normalized(struct spelling *s, const char *d, const char *d2)
{
    const char *v = pick(s, 2) ? build_node(&s->n.b, "Mul", NAMES(d2, d2), NOTHING)
                               : node2(s, "Pow", d2, number(s, 2));

    v = node2(s, "Add", mean(s, v), number(s, 1e-5));
    switch (pick(s, 5)) {
    case 0: return node2(s, "Div", d, node1(s, "Sqrt", v));
    case 1: return node2(s, "Div", d, node2(s, "Pow", v, number(s, 0.5)));
    case 2: return node2(s, "Mul", d, node1(s, "Reciprocal", node1(s, "Sqrt", v)));
    case 3: return node2(s, "Mul", d, node2(s, "Div", number(s, 1), node1(s, "Sqrt", v)));
    default: return node2(s, "Mul", d, node2(s, "Pow", v, number(s, -0.5)));
    }
}

static const char *row(struct spelling *s)
{
    return s->flat || pick(s, 2) ? CONST(&s->n, 1, 0.5f, WIDTH)
                                 : CONST(&s->n, 1, 0.5f, 1, 1, WIDTH);
}

static const char *layer_norm(struct spelling *s, const char *x, bool scale, bool bias)
{
    const char *m = mean(s, x), *d = node2(s, "Sub", x, m), *y;

    y = normalized(s, d, pick(s, 2) ? d : node2(s, "Sub", x, m));
    if (scale)
        y = node2(s, "Mul", y, row(s));
    return bias ? node2(s, "Add", y, row(s)) : y;
}

static void test_layer_norms(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        static const int opsets[] = { 9, 11, 13, 17, 18 };
        struct spelling s = begin(opsets[seed % 5], seed);

        expect(&s, layer_norm(&s, s.x, seed % 4 > 0, seed % 4 > 1), "LayerNormalization", 1);
    }
}

/* x * s + (bias - mean * s), s = scale / sqrt(...), as TensorFlow writes it; `by`: what is
 * multiplied by s and subtracted. */
static const char *scaled_norm(struct spelling *s, const char *x, const char *m, const char *by,
                               bool scale)
{
    const char *d = node2(s, "Sub", x, m), *v;

    v = build_node(&s->n.b, "Mul", NAMES(d, d), NOTHING);
    v = node2(s, "Add", mean(s, v), number(s, 1e-5));
    v = pick(s, 2) ? node1(s, "Reciprocal", node1(s, "Sqrt", v))
                   : node2(s, "Pow", v, number(s, -0.5));
    if (scale)
        v = node2(s, "Mul", v, row(s));
    d = node2(s, "Sub", row(s), node2(s, "Mul", by, v));
    return node2(s, "Add", node2(s, "Mul", x, v), d);
}

static void test_scaled_layer_norms(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct spelling s = begin(seed % 2 ? 11 : 18, seed);
        const char *m = mean(&s, s.x);

        if (seed % 5)
            expect(&s, scaled_norm(&s, s.x, m, m, seed % 3), "LayerNormalization", 1);
        else
            expect(&s, scaled_norm(&s, s.x, m, node1(&s, "Relu", m), true), "LayerNormalization",
                   0);
    }
}

static void test_rms_norms(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct spelling s = begin(seed % 2 ? 13 : 18, seed);
        const char *y = normalized(&s, s.x, s.x);

        expect(&s, seed % 3 ? node2(&s, "Mul", y, row(&s)) : y, "RMSNormalization", 1);
    }
}

/* The scale is a factor of x or of the inverse root; another value than x is not normalized. */
static void test_rms_norms_scaled_first(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct spelling s = begin(seed % 2 ? 13 : 18, seed);
        const char *x = seed % 5 ? s.x : node1(&s, "Relu", s.x);
        const char *v = pick(&s, 2) ? build_node(&s.n.b, "Mul", NAMES(s.x, s.x), NOTHING)
                                    : node2(&s, "Pow", s.x, number(&s, 2)),
                   *y;

        v = node2(&s, "Add", mean(&s, v), number(&s, 1e-5));
        v = pick(&s, 2) ? node1(&s, "Reciprocal", node1(&s, "Sqrt", v))
                        : node2(&s, "Pow", v, number(&s, -0.5));
        y = seed % 3 ? node2(&s, "Mul", node2(&s, "Mul", x, row(&s)), v)
                     : node2(&s, "Mul", x, node2(&s, "Mul", v, row(&s)));
        expect(&s, y, "RMSNormalization", seed % 5 != 0);
    }
}

/* Values inside that are read elsewhere stay; so does what only looks like a normalization. */
static void test_other_means(void **state)
{
    struct spelling s = begin(13, 1);
    const char *d = node2(&s, "Sub", s.x, mean(&s, s.x)), *y = normalized(&s, d, d);

    (void)state;
    expect(&s, node2(&s, "Add", y, d), "LayerNormalization", 0);
    s = begin(13, 2);
    d = node2(&s, "Sub", s.x, mean(&s, node1(&s, "Relu", s.x)));
    expect(&s, normalized(&s, d, d), "LayerNormalization", 0);
    s = begin(13, 3); /* another axis */
    y = build_node(&s.n.b, "ReduceMean", NAMES(s.x), at_ints("axes", INTS(1)));
    d = node2(&s, "Sub", s.x, y);
    expect(&s, normalized(&s, d, d), "LayerNormalization", 0);
    s = begin(13, 4); /* epsilon outside the root */
    d = node2(&s, "Sub", s.x, mean(&s, s.x));
    y = node1(&s, "Sqrt", mean(&s, build_node(&s.n.b, "Mul", NAMES(d, d), NOTHING)));
    expect(&s, node2(&s, "Div", d, node2(&s, "Add", y, number(&s, 1e-3))), "LayerNormalization", 0);
}

/* ---- activations ----------------------------------------------------------------- */

/* The product of the list and c, in random order. */
static const char *product(struct spelling *s, const char *a, const char *b, double c)
{
    switch (pick(s, 4)) {
    case 0: return node2(s, "Mul", node2(s, "Mul", a, b), number(s, c));
    case 1: return node2(s, "Mul", node2(s, "Mul", a, number(s, c)), b);
    case 2: return node2(s, "Mul", a, node2(s, "Mul", b, number(s, c)));
    default: return node2(s, "Div", node2(s, "Mul", a, b), number(s, 1 / c));
    }
}

static const char *gelu(struct spelling *s, const char *x, double factor)
{
    const char *z = pick(s, 2) ? node2(s, "Div", x, number(s, sqrt(2)))
                               : node2(s, "Mul", x, number(s, pick(s, 2) ? 0.7071 : sqrt(0.5)));

    return product(s, x, node2(s, "Add", node1(s, "Erf", z), number(s, 1)), factor);
}

static void test_gelus(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct spelling s = begin(13, seed);

        expect(&s, gelu(&s, s.x, 0.5), "Gelu", 1);
    }
}

static const char *cube(struct spelling *s, const char *x)
{
    if (pick(s, 2))
        return node2(s, "Pow", x, number(s, 3));
    return node2(s, "Mul", x, build_node(&s->n.b, "Mul", NAMES(x, x), NOTHING));
}

static void test_tanh_gelus(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct spelling s = begin(13, seed);
        const char *z = node2(&s, "Add", s.x,
                              node2(&s, "Mul", cube(&s, s.x), number(&s, 0.044715)));

        z = node1(&s, "Tanh", node2(&s, "Mul", z, number(&s, 0.7978845608)));
        expect(&s, product(&s, s.x, node2(&s, "Add", z, number(&s, 1)), 0.5), "Gelu", 1);
    }
}

static void test_swishes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct spelling s = begin(13, seed);
        const char *z = seed % 2 ? s.x : node2(&s, "Mul", s.x, number(&s, 1.702));

        expect(&s, node2(&s, "Mul", s.x, node1(&s, "Sigmoid", z)), "Swish", 1);
    }
}

static const char *clip6(struct spelling *s, const char *x)
{
    if (s->n.b.opset < 11)
        return build_node(&s->n.b, "Clip", NAMES(x), CAT(at_float("min", 0), at_float("max", 6)));
    return build_node(&s->n.b, "Clip", NAMES(x, number(s, 0), number(s, 6)), NOTHING);
}

static void test_hard_swishes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct spelling s = begin(seed % 2 ? 9 : 13, seed);
        const char *y;

        if (seed % 3)
            y = product(&s, s.x, clip6(&s, node2(&s, "Add", s.x, number(&s, 3))), 1.0 / 6);
        else
            y = node2(&s, "Mul", s.x,
                      build_node(&s.n.b, "HardSigmoid", NAMES(s.x),
                                 CAT(at_float("alpha", 1.0f / 6), at_float("beta", 0.5f))));
        expect(&s, y, "HardSwish", 1);
    }
}

/* Other functions of one value stay as they are. */
static void test_other_functions(void **state)
{
    struct spelling s = begin(13, 1);

    (void)state;
    expect(&s, gelu(&s, s.x, 0.51), "Gelu", 0);
    s = begin(13, 2);
    expect(&s, node2(&s, "Mul", s.x, node1(&s, "Sigmoid", node1(&s, "Relu", s.x))), "Swish", 0);
    s = begin(13, 3);
    expect(&s, node2(&s, "Mul", s.x, node1(&s, "Tanh", s.x)), "Swish", 0);
    s = begin(13, 4); /* alpha is -1 */
    expect(&s, node2(&s, "Mul", s.x, node1(&s, "Sigmoid", node1(&s, "Neg", s.x))), "Swish", 1);
}

/* ---- attention ----------------------------------------------------------------- */

enum { KEYS = 5 };

/* How many nodes are parts of attention; *masks: how many masks it has, *scale: its factor. */
static int parts_of_attention(struct spelling *s, const char *y, int *masks, double *scale)
{
    const struct pare_attention_parts **of;
    struct pare_model *m;
    struct pare_graph *g;
    struct pare_err err;
    int n = 0;

    build_output(&s->n.b, y);
    m = build_model(&s->n.b);
    g = pare_graph_clone(pool, m->graph, &err);
    assert_non_null(g);
    assert_int_equal(pare_graph_infer(g, false, &err), 0);
    assert_int_equal(pare_graph_attention(g, &of, &err), 0);
    for (int i = 0; i < g->n_nodes; i++)
        if (of[i]) {
            n++;
            *masks = of[i]->n_masks;
            *scale = of[i]->scale;
        }
    pare_model_free(m);
    return n;
}

/* Scores of x (2, ROWS, WIDTH) with keys of their own, by MatMul or Einsum. */
static const char *scores(struct spelling *s, bool einsum)
{
    const char *k = build_input(&s->n.b, PARE_F32, INTS(2, KEYS, WIDTH));

    if (einsum)
        return build_node(&s->n.b, "Einsum", NAMES(s->x, k), at_text("equation", "bqd,bkd->bqk"));
    k = build_node(&s->n.b, "Transpose", NAMES(k), at_ints("perm", INTS(0, 2, 1)));
    return build_node(&s->n.b, "MatMul", NAMES(s->x, k), NOTHING);
}

static const char *mix(struct spelling *s, const char *scores, bool einsum)
{
    const char *v = build_input(&s->n.b, PARE_F32, INTS(2, KEYS, 3));
    const char *p = build_node(&s->n.b, "Softmax", NAMES(scores), at_int("axis", -1));

    return einsum ? build_node(&s->n.b, "Einsum", NAMES(v, p), at_text("equation", "bkd,bqk->bqd"))
                  : build_node(&s->n.b, "MatMul", NAMES(p, v), NOTHING);
}

static void test_attention_parts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 64; seed++) {
        struct spelling s = begin(13, seed);
        bool scaled = seed & 1, sum = seed & 2, where = seed & 4, turned = seed & 8;
        const char *y = scores(&s, seed & 16);
        int n, masks = 0;
        double scale = 0;

        if (scaled && turned)
            y = node2(&s, "Div", y, number(&s, 4));
        else if (scaled)
            y = node2(&s, "Mul", y, number(&s, 0.25));
        if (sum)
            y = node2(&s, "Add", y, CONST(&s.n, 0, 1, ROWS, KEYS));
        if (where) {
            const char *keep = build_input(&s.n.b, PARE_BOOL, INTS(2, 1, KEYS));
            const char *low = number(&s, -1e9);

            y = build_node(&s.n.b, "Where", NAMES(keep, turned ? low : y, turned ? y : low),
                           NOTHING);
        }
        n = parts_of_attention(&s, mix(&s, y, seed & 32), &masks, &scale);
        assert_int_equal(n, 3 + scaled + sum + where);
        assert_int_equal(masks, sum + where);
        assert_true(scale == (scaled ? 0.25 : 1));
    }
}

/* Softmax along another axis, and of what is not a product. */
static void test_other_softmaxes(void **state)
{
    struct spelling s = begin(13, 1);
    int masks = 0;
    double scale;
    const char *p;

    (void)state;
    p = build_node(&s.n.b, "Softmax", NAMES(scores(&s, false)), at_int("axis", 1));
    p = build_node(&s.n.b, "MatMul", NAMES(p, build_input(&s.n.b, PARE_F32, INTS(2, KEYS, 3))),
                   NOTHING);
    assert_int_equal(parts_of_attention(&s, p, &masks, &scale), 0);
    s = begin(13, 2);
    p = mix(&s, build_input(&s.n.b, PARE_F32, INTS(2, ROWS, KEYS)), false);
    assert_int_equal(parts_of_attention(&s, p, &masks, &scale), 0);
    s = begin(13, 3);
    p = mix(&s, node1(&s, "Relu", scores(&s, false)), false);
    assert_int_equal(parts_of_attention(&s, p, &masks, &scale), 0);
}

/* Patterns within patterns, as a transformer block has them. */
static void test_block(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct spelling s = begin(13, seed);
        const char *w = CONST(&s.n, 0, 0.5f, WIDTH, 12), *v = CONST(&s.n, 0, 0.5f, 12, WIDTH), *y;

        y = build_node(&s.n.b, "MatMul", NAMES(layer_norm(&s, s.x, true, true), w), NOTHING);
        y = build_node(&s.n.b, "MatMul", NAMES(gelu(&s, y, 0.5), v), NOTHING);
        expect(&s, layer_norm(&s, node2(&s, "Add", s.x, y), true, false), "LayerNormalization", 2);
    }
}

/* ---- speedup ----------------------------------------------------------------- */

/* Linear layers with layer normalization between them: a masked output is 0 before the
 * normalization, which needs all channels, so zeros are inserted before it. */
static void test_zeros_before_norm(void **state)
{
    static const int opsets[] = { 9, 11, 13, 17 };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct spelling s = { .n = net_new((uint64_t)i) };
        const char *y;

        s.n.zero_bias = s.flat = true;
        s.n.b.opset = opsets[i];
        s.x = build_input(&s.n.b, PARE_F32, INTS(-1, 6));
        y = net_gemm(&s.n, s.x, HALF, 6, WIDTH);
        y = net_relu(&s.n, layer_norm(&s, y, true, true));
        y = net_gemm(&s.n, y, BACK, WIDTH, WIDTH);
        y = i == 3 ? build_node(&s.n.b, "LayerNormalization", NAMES(y, CONST(&s.n, 1, 0.3f, WIDTH)),
                                NOTHING)
                   : normalized(&s, y, y);
        EXPECT(&s.n, net_gemm(&s.n, net_relu(&s.n, y), ALL, WIDTH, 2), 4, 4, 2);
    }
}

/* A residual stream with masked channels: what writes to it shrinks, and the stream itself. */
static void test_zeros_in_stream(void **state)
{
    struct spelling s = { .n = net_new(5) };
    const char *x, *y;

    (void)state;
    s.x = build_input(&s.n.b, PARE_F32, INTS(-1, -1, 6));
    x = build_node(&s.n.b, "MatMul", NAMES(s.x, WEIGHT(&s.n, FRONT, 1, 6, WIDTH)), NOTHING);
    y = layer_norm(&s, x, true, true);
    y = build_node(&s.n.b, "MatMul", NAMES(y, WEIGHT(&s.n, HALF, 1, WIDTH, 12)), NOTHING);
    y = build_node(&s.n.b, "MatMul", NAMES(net_relu(&s.n, y), WEIGHT(&s.n, FRONT, 1, 12, WIDTH)),
                   NOTHING);
    y = layer_norm(&s, net_add(&s.n, x, y), true, true);
    EXPECT(&s.n, build_node(&s.n.b, "MatMul", NAMES(y, WEIGHT(&s.n, ALL, 1, WIDTH, 3)), NOTHING), 4,
           6, 4, 3);
}

/* The same with RMS normalization whose scale is a factor of x or of the inverse root. */
static void test_zeros_before_rms_norm(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct spelling s = { .n = net_new((uint64_t)i + 30) };
        const char *x, *v, *y, *w;

        s.n.zero_bias = s.flat = true;
        s.n.b.opset = i % 2 ? 13 : 18;
        x = net_gemm(&s.n, build_input(&s.n.b, PARE_F32, INTS(-1, 6)), HALF, 6, WIDTH);
        v = node2(&s, "Add", mean(&s, node2(&s, "Pow", x, number(&s, 2))), number(&s, 1e-5));
        v = node1(&s, "Reciprocal", node1(&s, "Sqrt", v));
        w = row(&s);
        y = i < 2 ? node2(&s, "Mul", node2(&s, "Mul", x, w), v)
                  : node2(&s, "Mul", x, node2(&s, "Mul", v, w));
        EXPECT(&s.n, net_gemm(&s.n, net_relu(&s.n, y), ALL, WIDTH, 2), 4, 2);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_layer_norms),     TEST(test_scaled_layer_norms),
        TEST(test_rms_norms),       TEST(test_rms_norms_scaled_first),
        TEST(test_other_means),     TEST(test_gelus),
        TEST(test_tanh_gelus),      TEST(test_swishes),
        TEST(test_hard_swishes),    TEST(test_other_functions),
        TEST(test_attention_parts), TEST(test_other_softmaxes),
        TEST(test_block),           TEST(test_zeros_before_norm),
        TEST(test_zeros_in_stream), TEST(test_zeros_before_rms_norm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
