/* test_sparse.c - kernels for sparse weights against the reference operators. */
#include "make_model.h"

#include <math.h>
#include <stdio.h>

#include "backend/sparse/sparse.h"
#include "base/rng.h"
#include "plan/plan.h"

enum { TRIALS = 400 };

struct rig {
    struct build b;
    struct pare_rng r;
    struct pare_tensor x;
    double zeros; /* fraction of the blocks that are zero */
    int rows;     /* of the weights' blocks */
};

static int64_t random_between(struct rig *g, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pare_rng_below(&g->r, (uint64_t)(hi - lo + 1));
}

static bool random_chance(struct rig *g, double p)
{
    return pare_rng_uniform(&g->r) < p;
}

static float random_value(struct rig *g)
{
    return (float)(2 * pare_rng_uniform(&g->r) - 1);
}

static void rig_begin(struct rig *g, uint64_t seed)
{
    static const double zeros[] = { 0, 0.5, 0.7, 0.9, 0.97, 1 };
    static const int rows[] = { 1, 4, 8, 3 };

    memset(g, 0, sizeof(*g));
    g->b.opset = 14;
    pare_rng_init(&g->r, seed);
    g->zeros = zeros[random_between(g, 0, 5)];
    g->rows = rows[random_between(g, 0, 3)];
}

static struct pare_tensor random_tensor(struct rig *g, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = random_value(g);
    return t;
}

static const char *random_const(struct rig *g, int rank, const int64_t *dim)
{
    struct pare_tensor t = random_tensor(g, rank, dim);

    return build_floats(&g->b, rank, dim, pare_f32(&t));
}

/* Weights (O, K), or transposed (K, O), with blocks of zeros; sums are about 1. */
static struct pare_tensor random_weights(struct rig *g, int rank, const int64_t *dim,
                                         bool transposed)
{
    struct pare_tensor t = random_tensor(g, rank, dim);
    int64_t O = dim[transposed ? rank - 1 : 0], K = pare_numel(&t) / O;

    for (int64_t i = 0; i < O * K; i++)
        pare_f32_mut(&t)[i] *= (float)(1 / sqrt((double)K));
    for (int64_t o = 0; o < O; o += g->rows)
        for (int64_t k = 0; k < K; k++) {
            bool gone = random_chance(g, g->zeros);

            for (int64_t r = o; r < o + g->rows && r < O && gone; r++)
                pare_f32_mut(&t)[transposed ? k * O + r : r * K + k] = random_chance(g, 0.1) ? -0.0f
                                                                                             : 0;
        }
    return t;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static struct pare_plan *make_plan(const struct pare_model *m, bool reference, int rows,
                                   int threads)
{
    struct pare_plan_opts o = { .reference = reference, .threads = threads };
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_build(m, &(struct pare_plan_build){ .opts = &o, .sparse_rows = rows }, &p, &err))
        fail_msg("%s", err.msg);
    return p;
}

static struct pare_tensor run_plan(struct pare_plan *p, const struct rig *g)
{
    struct pare_tensor out, copy;
    struct pare_err err;

    memset(p->memory, 0xff, p->memory_bytes); /* NaN */
    if (pare_plan_execute(p, &g->x, &out, &err))
        fail_msg("%s", err.msg);
    copy = build_copy(&out);
    pare_plan_free(p);
    return copy;
}

static int count_steps(const struct pare_plan *p, const char *kernel)
{
    int n = 0;

    for (int i = 0; i < p->n_steps; i++)
        n += !strcmp(p->step[i]->kernel->name, kernel);
    return n;
}

/* Checks all block sizes against the reference; `kernel` must be used in `times` steps. */
static void check_kernel(struct rig *g, const char *kernel, int times, uint64_t seed)
{
    struct pare_model *m = build_model(&g->b);
    struct pare_tensor want = run_plan(make_plan(m, true, 0, 1), g);

    for (int i = 0; i < PARE_SPARSE_KINDS; i++) {
        struct pare_plan *p = make_plan(m, false, pare_sparse_rows[i],
                                        1 + (int)(seed + (unsigned)i) % 3);
        struct pare_tensor got;

        if (count_steps(p, kernel) != times)
            fail_msg("trial %d: %d steps of %s, expected %d", (int)seed, count_steps(p, kernel),
                     kernel, times);
        got = run_plan(p, g);
        for (int64_t k = 0; k < pare_numel(&want); k++) {
            double a = pare_get(&want, k), b = pare_get(&got, k);

            if (!(fabs(a - b) <= 2e-5 * (1 + fabs(a))))
                fail_msg("trial %d, blocks of %d: element %d is %.9g, expected %.9g", (int)seed,
                         pare_sparse_rows[i], (int)k, b, a);
        }
    }
    pare_model_free(m);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

struct layer {
    int64_t C, O, size[2], kernel[2], stride[2], dilation[2], pads[4], out[2];
};

/* An axis whose window still overlaps the input. */
static void random_axis(struct rig *g, struct layer *l, int i)
{
    int64_t reach;

    l->kernel[i] = random_chance(g, 0.3) ? 1 : random_between(g, 2, 5);
    l->stride[i] = random_chance(g, 0.5) ? 1 : random_between(g, 2, 4);
    l->dilation[i] = random_chance(g, 0.7) ? 1 : random_between(g, 2, 3);
    l->pads[i] = random_chance(g, 0.4) ? 0 : random_between(g, 0, 4);
    l->pads[i + 2] = random_chance(g, 0.5) ? l->pads[i] : random_between(g, 0, 4);
    reach = (l->kernel[i] - 1) * l->dilation[i] + 1;
    if (l->size[i] + l->pads[i] + l->pads[i + 2] < reach) {
        l->kernel[i] = 1;
        reach = 1;
    }
    l->out[i] = (l->size[i] + l->pads[i] + l->pads[i + 2] - reach) / l->stride[i] + 1;
}

static const char *add_conv(struct rig *g, const char *x, const struct layer *l, bool one_axis)
{
    int64_t dim[] = { l->O, l->C, l->kernel[0], l->kernel[1] };
    int64_t dim1[] = { l->O, l->C, l->kernel[1] }, pads1[] = { l->pads[1], l->pads[3] };
    struct pare_tensor w = random_weights(g, one_axis ? 3 : 4, one_axis ? dim1 : dim, false);
    const char *in[] = { x, build_floats(&g->b, w.rank, w.dim, pare_f32(&w)), NULL };
    bool bias = random_chance(g, 0.6);
    int n = one_axis ? 1 : 2;

    if (bias)
        in[2] = random_const(g, 1, &l->O);
    return build_node(&g->b, "Conv", bias ? 3 : 2, in,
                      CAT(at_ints("strides", n, l->stride + 2 - n),
                          at_ints("dilations", n, l->dilation + 2 - n),
                          at_ints("pads", 2 * n, one_axis ? pads1 : l->pads)));
}

static const char *add_norm(struct rig *g, const char *x, int64_t C)
{
    struct pare_tensor var = random_tensor(g, 1, &C);

    for (int64_t i = 0; i < C; i++)
        pare_f32_mut(&var)[i] = 0.5f + fabsf(pare_f32(&var)[i]);
    return build_node(&g->b, "BatchNormalization",
                      NAMES(x, random_const(g, 1, &C), random_const(g, 1, &C),
                            random_const(g, 1, &C), build_floats(&g->b, 1, &C, pare_f32(&var))),
                      NOTHING);
}

static const char *add_activation(struct rig *g, const char *x)
{
    switch (random_between(g, 0, 8)) {
    case 0:
    case 1: return build_node(&g->b, "Relu", NAMES(x), NOTHING);
    case 2: return build_node(&g->b, "LeakyRelu", NAMES(x), at_float("alpha", 0.1f));
    case 3:
        return build_node(&g->b, "Clip",
                          NAMES(x, build_scalar(&g->b, -0.2f), build_scalar(&g->b, 0.6f)), NOTHING);
    case 4: return build_node(&g->b, "Sigmoid", NAMES(x), NOTHING);
    case 5: return build_node(&g->b, "Tanh", NAMES(x), NOTHING);
    case 6: return build_node(&g->b, "Elu", NAMES(x), at_float("alpha", 0.7f));
    case 7: return build_node(&g->b, "HardSwish", NAMES(x), NOTHING);
    default:
        return build_node(&g->b, "Mul", NAMES(x, build_node(&g->b, "Sigmoid", NAMES(x), NOTHING)),
                          NOTHING);
    }
}

/* Conv, then sometimes BatchNormalization, activations and a residual sum. */
static const char *add_block(struct rig *g, const char *x, struct layer *l, bool residual, bool one)
{
    const char *y;

    if (residual) {
        l->O = l->C;
        for (int i = 0; i < 2; i++) {
            l->stride[i] = l->dilation[i] = 1;
            l->kernel[i] = 3;
            l->pads[i] = l->pads[i + 2] = 1;
            l->out[i] = l->size[i];
        }
        if (one) {
            l->kernel[0] = 1;
            l->pads[0] = l->pads[2] = 0;
        }
    }
    y = add_conv(g, x, l, one);
    if (random_chance(g, 0.4))
        y = add_norm(g, y, l->O);
    if (random_chance(g, 0.2))
        y = add_activation(g, y);
    if (residual)
        y = build_node(&g->b, "Add", NAMES(x, y), NOTHING);
    return random_chance(g, 0.7) ? add_activation(g, y) : y;
}

static void test_convolutions(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct rig g;
        struct layer l = { 0 }, m;
        struct pare_mark mark = pare_mark(pool);
        bool one;
        int64_t N;
        const char *x;

        rig_begin(&g, seed);
        one = random_chance(&g, 0.15);
        N = random_between(&g, 1, 3);
        l.C = random_between(&g, 1, 40);
        l.O = random_between(&g, 1, 40);
        l.size[0] = one ? 1 : random_between(&g, 1, 20);
        l.size[1] = random_between(&g, 1, 40);
        for (int i = 0; i < 2; i++)
            random_axis(&g, &l, i);
        if (one)
            l.kernel[0] = l.stride[0] = l.dilation[0] = l.out[0] = 1, l.pads[0] = l.pads[2] = 0;
        g.x = one ? random_tensor(&g, 3, (int64_t[]){ N, l.C, l.size[1] })
                  : random_tensor(&g, 4, (int64_t[]){ N, l.C, l.size[0], l.size[1] });
        x = build_input(&g.b, PARE_F32, g.x.rank, g.x.dim);
        x = add_block(&g, x, &l, false, one);
        m = (struct layer){ .C = l.O, .O = l.O, .size = { l.out[0], l.out[1] } };
        build_output(&g.b,
                     add_block(&g, x, &m, true, one)); /* its input is in the blocked layout */
        check_kernel(&g, "conv_sparse", 2, seed);
        pare_rewind(pool, mark);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

static void test_products(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct pare_mark mark = pare_mark(pool);
        struct rig g;
        int64_t M, K, N;
        bool gemm, transposed, bias;
        const char *in[3], *y;
        struct pare_tensor w;

        rig_begin(&g, seed);
        M = random_chance(&g, 0.3) ? 1 : random_between(&g, 2, random_chance(&g, 0.5) ? 20 : 150);
        K = random_between(&g, 1, 90);
        N = random_between(&g, 1, 60);
        gemm = random_chance(&g, 0.5);
        transposed = !gemm || random_chance(&g, 0.5);
        bias = random_chance(&g, 0.5);
        g.x = gemm || M % 2 ? random_tensor(&g, 2, (int64_t[]){ M, K })
                            : random_tensor(&g, 3, (int64_t[]){ 2, M / 2, K });
        in[0] = build_input(&g.b, PARE_F32, g.x.rank, g.x.dim);
        w = random_weights(&g, 2, transposed ? (int64_t[]){ K, N } : (int64_t[]){ N, K },
                           transposed);
        in[1] = build_floats(&g.b, 2, w.dim, pare_f32(&w));
        if (bias)
            in[2] = random_const(&g, 1, &N);
        y = build_node(&g.b, gemm ? "Gemm" : "MatMul", gemm && bias ? 3 : 2, in,
                       gemm ? at_int("transB", !transposed) : NOTHING);
        if (!gemm && bias)
            y = build_node(&g.b, "Add", NAMES(y, in[2]), NOTHING);
        build_output(&g.b, random_chance(&g, 0.6) ? add_activation(&g, y) : y);
        check_kernel(&g, "linear_sparse", 1, seed);
        pare_rewind(pool, mark);
    }
}

/* ---- large layers ---------------------------------------------------------------------------- */

/* More rows than one band, and more weights than one block. */
static void test_large_convolutions(void **state)
{
    static const struct layer cases[] = {
        { 40, 24, { 70, 90 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1, 1, 1 }, { 70, 90 } },
        { 24, 40, { 121, 90 }, { 3, 5 }, { 2, 2 }, { 1, 1 }, { 1, 2, 1, 2 }, { 61, 45 } },
        { 72, 19, { 61, 63 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0 }, { 61, 63 } },
        { 300, 300, { 4, 5 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1, 1, 1 }, { 4, 5 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct layer l = cases[i];
        struct rig g;
        const char *x;

        rig_begin(&g, i);
        g.zeros = 0.8;
        g.x = random_tensor(&g, 4, (int64_t[]){ 2, l.C, l.size[0], l.size[1] });
        x = build_input(&g.b, PARE_F32, 4, g.x.dim);
        build_output(&g.b, add_conv(&g, x, &l, false));
        check_kernel(&g, "conv_sparse", 1, i);
    }
}

/* ---- choice of the kernel -------------------------------------------------------------------- */

/* The block rows of the chosen sparse kernel, for this fraction of zero blocks; 0: not chosen. */
static int chosen_rows(int rows, double zeros)
{
    struct layer l = {
        64, 64, { 28, 28 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1, 1, 1 }, { 28, 28 }
    };
    struct rig g;
    struct pare_model *m;
    struct pare_plan *p;
    const char *x;
    int got = 0;

    rig_begin(&g, 1);
    g.rows = rows;
    g.zeros = zeros;
    x = build_input(&g.b, PARE_F32, 4, (int64_t[]){ 1, 64, 28, 28 });
    build_output(&g.b, add_conv(&g, x, &l, false));
    m = build_model(&g.b);
    p = make_plan(m, false, 0, 1);
    for (int i = 0; i < p->n_steps; i++)
        if (!strcmp(p->step[i]->kernel->name, "conv_sparse"))
            got = pare_sparse_step_rows(p->step[i]);
    pare_plan_free(p);
    pare_model_free(m);
    return got;
}

static void test_sparse_kernel_choice(void **state)
{
    (void)state;
    assert_int_equal(chosen_rows(4, 0), 0);
    assert_int_equal(chosen_rows(4, 0.3), 0);
    assert_int_equal(chosen_rows(4, 0.8), 4);
    assert_true(chosen_rows(8, 0.8) > 1); /* on some machines 4 is faster for these, too */
    assert_int_equal(chosen_rows(1, 0.5), 0);
    assert_int_equal(chosen_rows(1, 0.95), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_convolutions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_products, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_large_convolutions, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_sparse_kernel_choice, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
