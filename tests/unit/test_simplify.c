/* test_simplify.c - simplified models and rewritten plans compute what the model computes, on
 * random networks as exporters write them, and at sizes of free dimensions that the analysis did
 * not use.
 *
 * Environment: PARE_GRAPHS is the number of networks, PARE_SEED the first seed.
 */
#include "free_graph_bodies.h"
#include "random_graph_exporters.h"

#include <stdio.h>

#include "onnx/simplify.h"
#include "plan/plan.h"
#include "tensor/compare.h"

enum { OUTPUTS = RG_VALUES + 2 };

static struct pare_err err;
static int nodes, nodes_left;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static bool run(const struct pare_model *m, const struct pare_tensor *in, bool reference,
                struct pare_tensor *out)
{
    struct pare_plan_opts o = { .threads = 1, .in = in, .n_in = m->n_in, .reference = reference };
    struct pare_plan_build b = { .opts = &o, .without_rewrites = (const char *const[]){ NULL } };
    struct pare_plan *p = NULL;
    bool good = !pare_plan_build(m, &b, &p, &err) && !pare_plan_execute(p, in, out, &err);

    for (int i = 0; good && i < m->n_out; i++)
        out[i] = build_copy(&out[i]);
    pare_plan_free(p);
    return good;
}

static void expect_close(uint64_t seed, const char *what, const struct pare_model *m,
                         const struct pare_tensor *got, const struct pare_tensor *want)
{
    for (int i = 0; i < m->n_out; i++) {
        double largest = 0;

        for (int64_t k = 0; k < pare_numel(&want[i]); k++)
            largest = fmax(largest, fabs(pare_get(&want[i], k)));
        if (pare_tensor_compare(&got[i], &want[i],
                                (struct pare_tolerance){ 1e-4, 1e-4 * largest + 1e-5 }, &err))
            fail_msg("seed %llu, %s, output %d: %s", (unsigned long long)seed, what, i, err.msg);
    }
}

static struct pare_model *simplify(uint64_t seed, const struct pare_model *m)
{
    struct pare_simplified s;
    struct pare_model *simple;

    if (pare_model_simplify(m, NULL, &simple, &err) ||
        pare_simplified_count(m, simple, pool, &s, &err))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
    nodes += s.nodes;
    nodes_left += s.nodes_left;
    assert_int_equal(simple->n_in, m->n_in);
    assert_int_equal(simple->n_out, m->n_out);
    for (int i = 0; i < m->n_out; i++)
        assert_string_equal(simple->out[i].name, m->out[i].name);
    return simple;
}

static void compare(uint64_t seed, const struct pare_model *m, const struct pare_model *simple,
                    const struct pare_tensor *in)
{
    static struct pare_tensor want[OUTPUTS], got[OUTPUTS];

    if (!run(m, in, true, want))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
    if (!run(simple, in, true, got))
        fail_msg("seed %llu, simplified: %s", (unsigned long long)seed, err.msg);
    expect_close(seed, "simplified", m, got, want);
    if (!run(m, in, false, got))
        fail_msg("seed %llu, plan: %s", (unsigned long long)seed, err.msg);
    expect_close(seed, "plan", m, got, want);
}

static void test_fixed_shapes(void **state)
{
    static struct rg g;
    uint64_t first = setting("PARE_SEED", 1), count = setting("PARE_GRAPHS", 400);

    (void)state;
    nodes = nodes_left = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct pare_mark mark = pare_mark(pool);
        struct pare_model *m, *simple;
        struct pare_tensor in[RG_INPUTS];

        rg_make_exported(&g, seed);
        m = build_model(&g.b);
        for (int i = 0; i < g.n_in; i++) {
            in[i] = build_tensor(PARE_F32, g.in[i].rank, g.in[i].dim);
            rg_fill(&g.r, &in[i], 1.5f);
        }
        simple = simplify(seed, m);
        compare(seed, m, simple, in);
        pare_model_free(simple);
        pare_model_free(m);
        pare_reset(pool, mark);
    }
    printf("fixed shapes: %d nodes, %d left\n", nodes, nodes_left);
    assert_true(nodes_left < nodes);
}

static void free_inputs(struct fg *g, struct pare_tensor *x)
{
    int rank = g->kind == FG_IMAGE ? 4 : 3;
    int64_t dim[4] = { 0 };

    for (int i = 0; i < rank; i++)
        dim[i] = g->fixed[i] >= 0 ? g->fixed[i] : i ? fg_int(g, 9, 33) : fg_int(g, 1, 5);
    x[0] = build_tensor(PARE_F32, rank, dim);
    for (int64_t i = 0; i < pare_numel(&x[0]); i++)
        pare_f32_mut(&x[0])[i] = (float)(2 * pare_rng_uniform(&g->r) - 1);
    if (!g->ids)
        return;
    x[1] = build_tensor(PARE_I64, 2, dim);
    for (int64_t i = 0; i < pare_numel(&x[1]); i++)
        ((int64_t *)x[1].data)[i] = fg_int(g, 0, FG_IDS - 1);
}

static void test_free_shapes(void **state)
{
    static struct fg g;
    uint64_t first = setting("PARE_SEED", 1), count = setting("PARE_GRAPHS", 400);

    int inside = 0, inside_left = 0; /* of models with all nodes in bodies */

    (void)state;
    nodes = nodes_left = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct pare_mark mark = pare_mark(pool);
        struct pare_model *m, *simple;
        struct pare_tensor in[2];
        const int before = nodes, before_left = nodes_left;

        fg_make(&g, seed);
        if (seed % 16 < 2)
            fg_into_if(&g);
        else if (seed % 16 < 4)
            fg_into_loop(&g);
        m = build_model(&g.b);
        simple = simplify(seed, m);
        inside += seed % 16 < 4 ? nodes - before : 0;
        inside_left += seed % 16 < 4 ? nodes_left - before_left : 0;
        for (int k = 0; k < 2; k++) {
            free_inputs(&g, in);
            compare(seed, m, simple, in);
        }
        pare_model_free(simple);
        pare_model_free(m);
        pare_reset(pool, mark);
    }
    printf("free shapes: %d nodes, %d left; in bodies %d, %d left\n", nodes, nodes_left, inside,
           inside_left);
    assert_true(nodes_left < nodes);
    assert_true(!inside || inside_left < inside);
}

/* A stride leaves one step of all sequences up to 512 elements, which includes those that the
 * analysis tries first. */
static void test_axis_hidden_by_a_stride(void **state)
{
    static struct build b;
    const int64_t shape[][3] = { { 1, 4, 300 }, { 3, 4, 1600 } };
    struct pare_model *m, *simple;
    const char *h;
    float w[8 * 4];

    (void)state;
    b = (struct build){ .opset = 13 };
    for (int i = 0; i < 8 * 4; i++)
        w[i] = (float)(i % 7) - 3;
    h = build_input(&b, PARE_F32, INTS(-1, 4, -1));
    h = build_node(&b, "Conv", NAMES(h, build_floats(&b, INTS(8, 4, 1), w)),
                   at_ints("strides", INTS(512)));
    h = build_node(&b, "Transpose", NAMES(h), at_ints("perm", INTS(2, 0, 1)));
    build_output(&b, build_node(&b, "Relu", NAMES(h), NOTHING));
    m = build_model(&b);
    simple = simplify(0, m);
    for (int k = 0; k < 2; k++) {
        struct pare_tensor in = build_tensor(PARE_F32, 3, shape[k]);

        for (int64_t i = 0; i < pare_numel(&in); i++)
            ((float *)in.data)[i] = (float)(i % 13) - 6;
        compare(0, m, simple, &in);
    }
    pare_model_free(simple);
    pare_model_free(m);
}

/* Every allocation may fail. */
static void fail_each_allocation(const struct pare_model *m)
{
    struct pare_model *simple;
    int failures = 0;

    for (int n = 1;; n++) {
        bool reached;
        int rc;

        pare_oom_countdown = -n;
        rc = pare_model_simplify(m, NULL, &simple, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
        failures += rc != 0;
        pare_model_free(simple);
        if (!reached)
            break;
    }
    assert_true(failures > 50);
}

static void test_out_of_memory(void **state)
{
    static struct rg g;
    struct pare_model *m;

    (void)state;
    rg_make_exported(&g, 12);
    m = build_model(&g.b);
    fail_each_allocation(m);
    pare_model_free(m);
}

static void test_out_of_memory_in_bodies(void **state)
{
    static struct fg g;
    struct pare_model *m;

    (void)state;
    fg_make(&g, 16);
    fg_into_if(&g);
    m = build_model(&g.b);
    fail_each_allocation(m);
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
        cmocka_unit_test(test_fixed_shapes),
        cmocka_unit_test(test_free_shapes),
        cmocka_unit_test(test_axis_hidden_by_a_stride),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_out_of_memory_in_bodies),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
