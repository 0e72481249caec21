/* test_bf16.c - products of values rounded to bfloat16 against float64; plans of precision bf16. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "backend/gemm/bf16_pairs.h"
#include "backend/gemm/gemm_bf16.h"
#include "backend/gemm/gemm_packed_matrix.h"
#include "base/rng.h"
#include "make_model.h"

static struct pare_rng rng;

static int setup(void **state)
{
    (void)state;
    pool = pare_arena_new(1 << 16);
    pare_rng_init(&rng, 3);
    return pool ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(pool);
    return 0;
}

static float random_value(void)
{
    return (float)pare_rng_normal(&rng);
}

static float round_value(float x)
{
    return pare_bf16_to_f32(pare_f32_to_bf16(x));
}

static int64_t random_size(int64_t n)
{
    return 1 + (int64_t)pare_rng_below(&rng, (uint64_t)n);
}

/* ---- pairs ------------------------------------------------------------------------------- */

static void expect_pair(const float *pair, float low, float high)
{
    uint16_t half[2];

    memcpy(half, pair, sizeof(half));
    for (int i = 0; i < 2; i++) {
        float want = i ? high : low, have = pare_bf16_to_f32(half[i]);

        if (isnan(want) ? !isnan(have) : have != round_value(want))
            fail_msg("half %d is %.9g, expected %.9g rounded", i, (double)have, (double)want);
    }
}

/* Every length, aligned or not, with the values that are hard to round. */
static void test_pairs(void **state)
{
    enum { N = 100 };
    const float hard[] = {
        NAN, INFINITY, -INFINITY, 0, 1.00390625f, 1.01171875f, -3.4e38f, 1e-30f
    };
    float x[N + 1], y[N], to[N + 1];
    char bytes[sizeof(x) + 1];

    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = i % 5 ? random_value() : hard[i / 5 % 8];
        y[i] = i % 7 ? random_value() : hard[i / 7 % 8];
    }
    for (int n = 0; n < N; n++) {
        memcpy(bytes + 1, x, sizeof(x));
        to[(n + 1) / 2] = 77;
        pare_bf16_pairs(n % 2 ? bytes + 1 : (const void *)x, n, to);
        for (int i = 0; i < n; i += 2)
            expect_pair(to + i / 2, x[i], i + 1 < n ? x[i + 1] : 0);
        assert_true(to[(n + 1) / 2] == 77);
        to[n] = 77;
        pare_bf16_zip(x, n % 3 ? y : NULL, n, to);
        for (int i = 0; i < n; i++)
            expect_pair(to + i, x[i], n % 3 ? y[i] : 0);
        assert_true(to[n] == 77);
    }
}

/* ---- matrices ---------------------------------------------------------------------------- */

static void check_product(int block, bool transposed)
{
    enum { M = 40, K = 75, N = 112 };
    static float x[M * K], w[K * N], pairs[M * (K + 1)], packed[(K + 1) * N], scratch[(K + 1) * N];
    static float y[M * N], bias[N];
    int64_t m = random_size(M), k = random_size(K), n = random_size(N / block) * block;
    struct pare_backend b = { .threads = 2, .block = block };
    const struct pare_packed_gemm_weights from = { w, k, n, transposed };
    struct pare_packed_gemm p = pare_packed_gemm_matrix(m, pare_bf16_half(k), n, block);

    for (int i = 0; i < M * K; i++)
        x[i] = random_value();
    for (int i = 0; i < K * N; i++)
        w[i] = random_value();
    for (int i = 0; i < N; i++)
        bias[i] = random_value();
    pare_packed_gemm_round(&b, x, m, k, pairs);
    pare_packed_gemm_pack_bf16(&b, &from, scratch, packed);
    p.x = pairs;
    p.w = packed;
    p.y = y;
    p.bias = bias;
    p.bf16 = true;
    pare_packed_gemm_multiply(&b, &p, NULL, NULL);
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < n; c++) {
            double sum = (double)bias[c];

            for (int64_t i = 0; i < k; i++)
                sum += (double)round_value(x[r * k + i]) *
                       (double)round_value(transposed ? w[c * k + i] : w[i * n + c]);
            if (!(fabs(sum - (double)y[r * n + c]) < 3e-5))
                fail_msg("%d x %d x %d, block %d: %g instead of %g", (int)m, (int)k, (int)n, block,
                         (double)y[r * n + c], sum);
        }
}

/* Computed matrices, either of them transposed, added to C, with a bias. */
static void check_computed(int i)
{
    enum { MOST = 700 * 64 };
    static float a[MOST], b[MOST], c[64 * 64], before[64 * 64], bias[64], work[700 * 200];
    const int block = i & 8 ? 8 : 16;
    const struct pare_backend backend = { .threads = 1 + i % 3, .block = block, .bf16 = true };
    struct pare_sgemm p = { .ta = i & 1,
                            .tb = i & 2,
                            .add = i & 4,
                            .M = random_size(64),
                            .N = random_size(64 / block) * block,
                            .K = random_size(i % 5 ? 60 : 690),
                            .a = a,
                            .b = b,
                            .c = c };
    int64_t n;

    p.lda = (p.ta ? p.M : p.K) + i % 2, p.ldb = (p.tb ? p.K : p.N), p.ldc = p.N;
    for (int k = 0; k < MOST; k++)
        a[k] = random_value(), b[k] = random_value();
    for (int k = 0; k < 64 * 64; k++)
        before[k] = c[k] = random_value(), bias[k % 64] = random_value();
    assert_true(pare_gemm_bf16_can(&backend, &p));
    assert_true(pare_gemm_bf16_work(&p) <= sizeof(work) / sizeof(*work));
    pare_gemm_bf16(&backend, &p, i & 16 ? bias : NULL, work);
    n = p.M * p.N;
    for (int64_t k = 0; k < n; k++) {
        int64_t row = k / p.N, column = k % p.N;
        double sum = (p.add ? (double)before[k] : 0) + (i & 16 ? (double)bias[column] : 0);

        for (int64_t e = 0; e < p.K; e++)
            sum += (double)round_value(a[p.ta ? e * p.lda + row : row * p.lda + e]) *
                   (double)round_value(b[p.tb ? column * p.ldb + e : e * p.ldb + column]);
        if (!(fabs(sum - (double)c[k]) < 2e-4))
            fail_msg("case %d: %g instead of %g", i, (double)c[k], sum);
    }
    assert_true(n == 64 * 64 || c[n] == before[n]);
}

static void test_computed_products(void **state)
{
    (void)state;
    for (int i = 0; i < 160; i++)
        check_computed(i);
}

static void test_products(void **state)
{
    (void)state;
    for (int i = 0; i < 80; i++)
        check_product(i % 2 ? 8 : 16, i & 2);
}

/* ---- plans ------------------------------------------------------------------------------- */

/* A layer of one type with these weights. */
static struct pare_model *make_layer(const char *type, const struct pare_tensor *x,
                                     const struct pare_tensor *w, struct bin attrs)
{
    struct build b = { .opset = 17 };
    const char *in = build_input(&b, PARE_F32, x->rank, x->dim);
    const char *weight = build_floats(&b, w->rank, w->dim, w->data);

    build_output(&b, build_node(&b, "Relu", NAMES(build_node(&b, type, NAMES(in, weight), attrs)),
                                NOTHING));
    return build_model(&b);
}

static struct pare_tensor run_layer(const struct pare_model *m, const struct pare_tensor *x,
                                    const struct pare_plan_opts *o)
{
    struct pare_tensor y, copy;
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_make(m, o, &p, &err) || pare_plan_execute(p, x, &y, &err))
        fail_msg("%s", err.msg);
    copy = build_copy(&y);
    pare_plan_free(p);
    return copy;
}

static struct pare_tensor rounded(const struct pare_tensor *t)
{
    struct pare_tensor r = build_copy(t);

    for (int64_t i = 0; i < pare_numel(&r); i++)
        pare_f32_mut(&r)[i] = round_value(pare_f32(&r)[i]);
    return r;
}

/* Norm of the difference by norm of `want`. */
static double error_of(const struct pare_tensor *have, const struct pare_tensor *want)
{
    double difference = 0, value = 0;

    assert_true(pare_same_shape(have, want));
    for (int64_t i = 0; i < pare_numel(want); i++) {
        double a = (double)pare_f32(want)[i], b = (double)pare_f32(have)[i];

        difference += (a - b) * (a - b);
        value += a * a;
    }
    return sqrt(difference / value);
}

struct layer {
    const char *type;
    int rank_x, rank_w;
    int64_t x[4], w[4];
    int64_t stride, pad;
    double against_rounded; /* most error against float32 sums of rounded operands */
};

/* A bf16 plan computes float32 sums of rounded operands: nearly the reference kernel's result for
 * rounded weights and inputs, and not its result for the others. */
static void check_layer(const struct layer *l, int threads)
{
    struct pare_tensor x = build_tensor(PARE_F32, l->rank_x, l->x),
                       w = build_tensor(PARE_F32, l->rank_w, l->w), rx, rw, exact, want, have;
    struct bin attrs = NOTHING;
    struct pare_model *m, *r;

    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = random_value();
    for (int64_t i = 0; i < pare_numel(&w); i++)
        pare_f32_mut(&w)[i] = random_value();
    if (l->rank_x == 4)
        attrs = CAT(at_ints("strides", INTS(l->stride, l->stride)),
                    at_ints("pads", INTS(l->pad, l->pad, l->pad, l->pad)));
    rx = rounded(&x);
    rw = rounded(&w);
    m = make_layer(l->type, &x, &w, attrs);
    r = make_layer(l->type, &rx, &rw, attrs);
    exact = run_layer(m, &x, &(struct pare_plan_opts){ .reference = true });
    want = run_layer(r, &rx, &(struct pare_plan_opts){ .reference = true });
    have = run_layer(m, &x,
                     &(struct pare_plan_opts){ .precision = PARE_PRECISION_BF16,
                                               .threads = threads });
    if (!(error_of(&have, &want) <= l->against_rounded))
        fail_msg("%s (%d, %d, ...): error %g", l->type, (int)l->x[0], (int)l->x[1],
                 error_of(&have, &want));
    assert_true(error_of(&have, &exact) > 5e-4);
    assert_true(error_of(&have, &exact) < 0.03);
    pare_model_free(m);
    pare_model_free(r);
}

static void test_layers(void **state)
{
    static const struct layer layers[] = {
        { "MatMul", 2, 2, { 37, 65 }, { 65, 64 }, 0, 0, 1e-6 },
        { "MatMul", 2, 2, { 1, 640 }, { 640, 96 }, 0, 0, 1e-6 },
        { "MatMul", 3, 2, { 2, 50, 512 }, { 512, 768 }, 0, 0, 1e-6 },
        { "Conv", 4, 4, { 2, 32, 9, 7 }, { 48, 32, 1, 1 }, 1, 0, 1e-6 },
        { "Conv", 4, 4, { 1, 37, 12, 12 }, { 40, 37, 1, 1 }, 1, 0, 1e-6 },
        { "Conv", 4, 4, { 1, 512, 7, 7 }, { 1024, 512, 1, 1 }, 1, 0, 1e-6 },
        { "Conv", 4, 4, { 1, 64, 20, 19 }, { 64, 64, 3, 3 }, 1, 1, 0.02 }, /* Winograd */
        { "Conv", 4, 4, { 2, 32, 11, 15 }, { 48, 32, 3, 3 }, 2, 1, 1e-6 },
        { "Conv", 4, 4, { 1, 3, 30, 33 }, { 40, 3, 7, 7 }, 2, 3, 1e-6 },
        { "Conv", 4, 4, { 1, 37, 16, 16 }, { 24, 37, 1, 1 }, 2, 0, 1e-6 },
        { "Conv", 4, 4, { 1, 16, 16, 16 }, { 256, 16, 4, 4 }, 4, 0, 1e-6 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
        for (int threads = 1; threads < 3; threads++)
            check_layer(&layers[i], threads);
}

/* PARE_PRECISION_AUTO uses bf16 where the CPU has it and the error is small, and only there. */
static void test_auto(void **state)
{
    const int64_t shape[] = { 8, 64 }, weights[] = { 64, 32 };
    struct pare_tensor x = build_tensor(PARE_F32, 2, shape), w = build_tensor(PARE_F32, 2, weights);

    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct pare_plan_opts o = { .precision = PARE_PRECISION_AUTO, .in = &x, .n_in = 1 };
        struct pare_model *m;
        struct pare_plan *p;
        struct pare_err err;

        /* large terms that cancel in float32, whose rounding errors do not */
        for (int64_t i = 0; i < 8 * 64; i++)
            pare_f32_mut(&x)[i] = cancel ? 1000.3f + (float)(i % 2) * 0.1f : random_value();
        for (int64_t i = 0; i < 64 * 32; i++)
            pare_f32_mut(&w)[i] = cancel ? i / 32 % 2 ? 1.0f : -1.0f : random_value();
        m = make_layer("MatMul", &x, &w, NOTHING);
        assert_int_equal(pare_plan_new(m, &o, &p, &err), 0);
        assert_true(p->backend.bf16 == (p->backend.has_bf16 && !cancel));
        if (p->backend.has_bf16)
            assert_true(cancel == (p->bf16_error > PARE_BF16_ERROR));
        pare_plan_free(p);
        pare_model_free(m);
    }
}

/* Each allocation of the choice fails in turn. */
static void test_no_memory(void **state)
{
    const int64_t shape[] = { 1, 32, 8, 8 }, weights[] = { 32, 32, 3, 3 };
    struct pare_tensor x = build_tensor(PARE_F32, 4, shape), w = build_tensor(PARE_F32, 4, weights);
    struct pare_plan_opts o = { .precision = PARE_PRECISION_AUTO, .in = &x, .n_in = 1 };
    struct pare_model *m;
    int failures = 0;

    (void)state;
    x.data = NULL; /* random inputs */
    m = make_layer("Conv", &x, &w, at_ints("pads", INTS(1, 1, 1, 1)));
    for (int sign = -1; sign < 2; sign += 2)
        for (int n = 1; build_plan_fails(m, &o, 0, sign * n, &failures); n++)
            ;
    assert_true(failures > 10);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_computed_products),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
