/* test_nbits.c - products with packed 4-bit and 8-bit weights: against numpy and the reference.
 *
 * tools/golden_nbits.py writes the expected values.  Also malformed models.
 */
#include "make_model.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "io/file.h"
#include "compress/export.h"
#include "io/npz.h"
#include "plan/plan.h"

enum { TRIALS = 150 };

static struct pare_err err;

/* ---- models -------------------------------------------------------------------------------- */

static struct pare_model *parse(const struct build *b)
{
    struct bin bytes = CAT(num(1, 10), msg(7, join(b->part, (size_t)b->n)), opset("", b->opset),
                           opset("com.microsoft", 1));
    struct pare_model *m;

    if (pare_model_parse(bytes.p, bytes.n, NULL, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

static struct bin nbits_attrs(int64_t K, int64_t N, int64_t bits, int64_t block)
{
    return CAT(text(7, "com.microsoft"), at_int("K", K), at_int("N", N), at_int("bits", bits),
               at_int("block_size", block));
}

static bool has_kernel(const struct pare_plan *p, const char *kernel)
{
    for (int i = 0; i < p->n_steps; i++)
        if (!strcmp(p->step[i]->kernel->name, kernel))
            return true;
    return false;
}

/* The model's result; `fast`: with the kernel linear_nbits. */
static struct pare_tensor run_model(const struct pare_model *m, const struct pare_tensor *x,
                                    bool fast, int threads)
{
    struct pare_plan_opts o = { .reference = !fast, .threads = threads, .in = x };
    struct pare_tensor out, copy;
    struct pare_plan *p;

    if (pare_plan_make(m, &o, &p, &err))
        fail_msg("%s", err.msg);
    if (fast && !has_kernel(p, "linear_nbits"))
        fail_msg("the plan does not use linear_nbits");
    memset(p->memory, 0xff, p->memory_bytes);
    if (pare_plan_execute(p, x, &out, &err))
        fail_msg("%s", err.msg);
    copy = build_copy(&out);
    pare_plan_free(p);
    return copy;
}

/* ---- expected values of numpy ---------------------------------------------------------------- */

static struct pare_named *file;
static int n_file;

static struct pare_tensor *find_array(const char *name, const char *what)
{
    char full[128];

    snprintf(full, sizeof(full), "nbits|%s|%s", name, what);
    for (int i = 0; i < n_file; i++)
        if (!strcmp(file[i].name, full))
            return &file[i].t;
    return NULL;
}

static void expect_close(const char *what, const struct pare_tensor *got,
                         const struct pare_tensor *want)
{
    double largest = 0;

    assert_int_equal(pare_numel(got), pare_numel(want));
    for (int64_t i = 0; i < pare_numel(want); i++)
        largest = fmax(largest, fabs(pare_get(want, i)));
    for (int64_t i = 0; i < pare_numel(want); i++)
        if (!(fabs(pare_get(got, i) - pare_get(want, i)) <= 2e-6 * largest))
            fail_msg("%s: element %lld is %.9g, expected %.9g", what, (long long)i,
                     pare_get(got, i), pare_get(want, i));
}

static void check_numpy_case(const char *name)
{
    const struct pare_tensor *how = find_array(name, "how"), *a = find_array(name, "a"),
                             *b = find_array(name, "b");
    const struct pare_tensor *s = find_array(name, "s"), *z = find_array(name, "z"),
                             *y = find_array(name, "y");
    struct build g = { .opset = 17 };
    const int64_t *h = pare_i64(how);
    const char *in[4] = { build_input(&g, PARE_F32, 2, a->dim), NULL, NULL, NULL };
    struct pare_model *m;
    struct pare_tensor got;

    in[1] = build_const(&g, PARE_U8, 3, b->dim, b->data);
    in[2] = build_floats(&g, 2, s->dim, pare_f32(s));
    in[3] = z ? build_const(&g, PARE_U8, 2, z->dim, z->data) : NULL;
    build_output(&g,
                 build_node(&g, "MatMulNBits", z ? 4 : 3, in, nbits_attrs(h[0], h[1], h[2], h[3])));
    m = parse(&g);
    got = run_model(m, a, false, 1);
    expect_close(name, &got, y);
    if (h[2] != 2) {
        got = run_model(m, a, true, 1);
        expect_close(name, &got, y);
        got = run_model(m, a, true, 2);
        expect_close(name, &got, y);
    }
    pare_model_free(m);
}

static void test_products_match_numpy(void **state)
{
    static const char *const names[] = {
        "one", "odd", "rows", "eight", "eight_zero", "two", "many"
    };

    (void)state;
    if (pare_npz_read(pool, "golden/nbits.npz", &file, &n_file, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        check_numpy_case(names[i]);
}

/* ---- fast against reference ------------------------------------------------------------------ */

static int64_t random_between(struct pare_rng *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)pare_rng_below(r, (uint64_t)(hi - lo + 1));
}

static const char *random_floats(struct build *b, struct pare_rng *r, int rank, const int64_t *dim,
                                 double lo)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)(lo + pare_rng_uniform(r));
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* An initializer of random integers; 4-bit types are packed. */
static const char *random_ints(struct build *b, struct pare_rng *r, int dtype, int rank,
                               const int64_t *dim)
{
    struct pare_tensor t = { .dtype = (enum pare_dtype)dtype, .rank = rank };
    const char *name = build_name(b);
    size_t bytes;
    unsigned char *p;

    for (int i = 0; i < rank; i++)
        t.dim[i] = dim[i];
    bytes = pare_packed_size(&t);
    p = pare_alloc(pool, bytes + 1, 1);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)pare_rng_next(r);
    build_put(b, msg(5, CAT(build_dims(rank, dim, 1), num(2, dtype), text(8, name),
                            blob(9, p, bytes))));
    return name;
}

static struct pare_tensor random_input(struct pare_rng *r, int rank, const int64_t *dim)
{
    struct pare_tensor x = build_tensor(PARE_F32, rank, dim);

    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)(pare_rng_uniform(r) * 2 - 1);
    return x;
}

static void compare_with_reference(const struct pare_model *m, const struct pare_tensor *x,
                                   const char *what)
{
    struct pare_tensor want = run_model(m, x, false, 1), got;

    for (int threads = 1; threads <= 2; threads++) {
        got = run_model(m, x, true, threads);
        expect_close(what, &got, &want);
    }
}

/* A DequantizeLinear of weights, with a scale per group, per column, or one. */
static const char *dequantized_weights(struct build *b, struct pare_rng *r, int64_t K, int64_t N,
                                       int axis)
{
    static const int types[] = { PARE_I4, PARE_U4, PARE_I8, PARE_U8 };
    int type = types[random_between(r, 0, 3)], form = (int)random_between(r, 0, 2);
    int64_t dim[2] = { axis ? N : K, axis ? K : N }, group = 8 * random_between(r, 1, 20), sd[2];
    const char *in[3];
    int rank = form == 0 ? 2 : form == 1;

    sd[0] = form == 1 ? N : dim[0];
    sd[1] = dim[1];
    if (form == 0)
        sd[axis] = (K + group - 1) / group;
    in[0] = random_ints(b, r, type, 2, dim);
    in[1] = random_floats(b, r, rank, sd, 0.1);
    in[2] = random_ints(b, r, type, rank, sd);
    return build_node(b, "DequantizeLinear", (int)random_between(r, 2, 3), in,
                      form == 0 ? CAT(at_int("axis", axis), at_int("block_size", group))
                                : at_int("axis", !axis));
}

static void test_linear_layers_match_reference(void **state)
{
    static const int64_t rows[] = { 1, 1, 2, 3, 4, 7, 12, 13, 40 };

    (void)state;
    for (int seed = 0; seed < TRIALS; seed++) {
        struct build b = { .opset = 21 };
        struct pare_rng r;
        int64_t K, N, M, dim[3] = { 2, 1, 1 };
        struct pare_tensor x;
        struct pare_model *m;
        bool gemm, cube;
        const char *in[3], *y;
        int axis;
        char what[64];

        pare_rng_init(&r, (uint64_t)seed);
        K = random_between(&r, 1, 300);
        N = seed % 10 ? random_between(&r, 1, 70) : random_between(&r, 600, 700);
        M = rows[random_between(&r, 0, 8)];
        gemm = random_between(&r, 0, 1);
        cube = !gemm && random_between(&r, 0, 1);
        axis = gemm ? (int)random_between(&r, 0, 1) : 0;
        dim[cube] = M;
        dim[cube + 1] = K;
        x = random_input(&r, 2 + cube, dim);
        in[0] = build_input(&b, PARE_F32, 2 + cube, dim);
        in[1] = dequantized_weights(&b, &r, K, N, axis);
        in[2] = random_floats(&b, &r, 1, &N, -0.5);
        y = build_node(&b, gemm ? "Gemm" : "MatMul", gemm ? (int)random_between(&r, 2, 3) : 2, in,
                       axis ? at_int("transB", 1) : NOTHING);
        if (!gemm && random_between(&r, 0, 1))
            y = build_node(&b, "Add", NAMES(in[2], y), NOTHING);
        build_output(&b, y);
        m = parse(&b);
        snprintf(what, sizeof(what), "seed %d", seed);
        compare_with_reference(m, &x, what);
        pare_model_free(m);
    }
}

static void test_matmul_nbits_matches_reference(void **state)
{
    (void)state;
    for (int seed = 0; seed < TRIALS; seed++) {
        struct build b = { .opset = 17 };
        struct pare_rng r;
        int64_t K, N, block, bits, blocks, dim[2], sd[2];
        struct pare_tensor x;
        struct pare_model *m;
        const char *in[6] = { NULL, NULL, NULL, "", "", NULL };
        char what[64];
        int n = 3;

        pare_rng_init(&r, (uint64_t)seed + 1000);
        K = random_between(&r, 1, 600);
        N = random_between(&r, 1, 50);
        bits = random_between(&r, 1, 2) * 4;
        block = (int64_t)16 << random_between(&r, 0, 4);
        blocks = (K + block - 1) / block;
        dim[0] = random_between(&r, 1, 20);
        dim[1] = K;
        x = random_input(&r, 2, dim);
        in[0] = build_input(&b, PARE_F32, 2, dim);
        in[1] = random_ints(&b, &r, PARE_U8, 3, (int64_t[]){ N, blocks, block * bits / 8 });
        sd[0] = N * blocks;
        in[2] = random_floats(&b, &r, 1, sd, 0.1);
        sd[0] = N * ((blocks * bits + 7) / 8);
        if (random_between(&r, 0, 1)) {
            in[3] = random_ints(&b, &r, PARE_U8, 1, sd);
            n = 4;
        }
        if (random_between(&r, 0, 1)) {
            in[5] = random_floats(&b, &r, 1, &N, -0.5);
            n = 6;
        }
        build_output(&b, build_node(&b, "MatMulNBits", n, in, nbits_attrs(K, N, bits, block)));
        m = parse(&b);
        snprintf(what, sizeof(what), "seed %d", seed);
        compare_with_reference(m, &x, what);
        pare_model_free(m);
    }
}

/* scale (q - zero point) of pare_model_layer_quant() and the weight of pare_model_state() are the
 * weights that the node multiplies by: rows of the identity give its columns. */
static void test_scales_and_zero_points_are_listed(void **state)
{
    enum { K = 40, N = 3, BLOCK = 16, BLOCKS = 3 };

    (void)state;
    for (int i = 0; i < 6; i++) {
        int64_t bits = 2 << i % 3, row = (BLOCKS * bits + 7) / 8, dim[2] = { K, K };
        const char *in[4] = { NULL };
        struct pare_tensor x = build_tensor(PARE_F32, 2, dim), y;
        static const enum pare_dtype type[6] = { PARE_I2, PARE_I4, PARE_I8,
                                                 PARE_U2, PARE_U4, PARE_U8 };
        struct build b = { .opset = 17 };
        const struct pare_model_layer *layer;
        struct pare_model_quant q;
        struct pare_named *list;
        struct pare_model *m;
        struct pare_rng r;
        int n, w = 0;

        pare_rng_init(&r, (uint64_t)i);
        for (int64_t k = 0; k < K; k++)
            pare_f32_mut(&x)[k * K + k] = 1;
        in[0] = build_input(&b, PARE_F32, 2, dim);
        in[1] = random_ints(&b, &r, PARE_U8, 3, (int64_t[]){ N, BLOCKS, BLOCK * bits / 8 });
        in[2] = random_floats(&b, &r, 1, (int64_t[]){ N * BLOCKS }, 0.1);
        in[3] = i < 3 ? "" : random_ints(&b, &r, PARE_U8, 1, (int64_t[]){ N * row });
        build_output(&b, build_node(&b, "MatMulNBits", 4, in, nbits_attrs(K, N, bits, BLOCK)));
        m = parse(&b);
        y = run_model(m, &x, false, 1);
        assert_int_equal(pare_model_list_layers(m, pool, &layer, &n, &err), 0);
        assert_int_equal(n, 1);
        assert_int_equal(pare_model_layer_quant(m, layer[0].name, 'w', &q, &err), 0);
        assert_int_equal(q.dtype, type[i]);
        assert_int_equal(q.group, BLOCK);
        assert_int_equal(pare_numel(&q.scale), N * BLOCKS);
        assert_int_equal(q.zero_point.data ? pare_numel(&q.zero_point) : 0, i < 3 ? 0 : N * BLOCKS);
        assert_int_equal(pare_model_state(m, pool, &list, &n, &err), 0);
        while (w < n && !pare_ends_with(list[w].name, ".weight"))
            w++;
        assert_in_range(w, 0, n - 1);
        for (int64_t k = 0; k < K * N; k++)
            assert_true(fabsf(pare_f32(&list[w].t)[k] - pare_f32(&y)[k % K * N + k / K]) < 1e-5f);
        pare_model_free(m);
    }
}

/* Large 4-bit constants are not unpacked when they are loaded, nor in plans. */
static void test_weights_stay_packed(void **state)
{
    const int64_t K = 2048, N = 1024, xd[2] = { 1, 2048 };
    struct build b = { .opset = 21 };
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_plan *p;
    struct pare_rng r;
    struct pare_model *m;
    const char *x, *w, *s;
    const struct pare_value *v;

    (void)state;
    pare_rng_init(&r, 3);
    x = build_input(&b, PARE_F32, 2, xd);
    w = random_ints(&b, &r, PARE_I4, 2, (int64_t[]){ N, K });
    s = random_floats(&b, &r, 2, (int64_t[]){ N, K / 64 }, 0.1);
    s = build_node(&b, "DequantizeLinear", NAMES(w, s),
                   CAT(at_int("axis", 1), at_int("block_size", 64)));
    build_output(&b, build_node(&b, "Gemm", NAMES(x, s), at_int("transB", 1)));
    m = parse(&b);
    v = pare_graph_find(m->graph, w);
    assert_non_null(v->raw);
    assert_null(v->t.data);
    if (pare_plan_make(m, &o, &p, &err))
        fail_msg("%s", err.msg);
    assert_true(has_kernel(p, "linear_nbits"));
    assert_null(pare_graph_find(p->graph, w)->t.data);
    assert_null(pare_graph_find(p->graph, s)->t.data);
    pare_plan_free(p);
    pare_model_free(m);
}

/* ---- malformed ----------------------------------------------------------------------------- */

struct malformed {
    int64_t K, N, bits, block, b[3], s, z;
    const char *message;
};

static void expect_refused(const struct malformed *o)
{
    struct build b = { .opset = 17 };
    const int64_t xd[2] = { 1, 64 };
    struct pare_plan *p = NULL;
    struct pare_model *m;
    struct pare_rng r;
    const char *in[4];

    pare_rng_init(&r, 1);
    in[0] = build_input(&b, PARE_F32, 2, xd);
    in[1] = random_ints(&b, &r, PARE_U8, 3, o->b);
    in[2] = random_floats(&b, &r, 1, &o->s, 0.1);
    in[3] = random_ints(&b, &r, PARE_U8, 1, &o->z);
    build_output(&b, build_node(&b, "MatMulNBits", o->z ? 4 : 3, in,
                                nbits_attrs(o->K, o->N, o->bits, o->block)));
    m = parse(&b);
    assert_int_not_equal(pare_plan_make(m, NULL, &p, &err), 0);
    if (!strstr(err.msg, o->message))
        fail_msg("expected '%s' in: %s", o->message, err.msg);
    pare_model_free(m);
}

static void test_malformed_models_are_refused(void **state)
{
    static const struct malformed malformed[] = {
        { 64, 8, 4, 32, { 8, 2, 15 }, 16, 0, "B is (8, 2, 15)" },
        { 64, 8, 4, 32, { 7, 2, 16 }, 16, 0, "B is (7, 2, 16)" },
        { 64, 8, 4, 32, { 8, 3, 16 }, 16, 0, "B is (8, 3, 16)" },
        { 64, 8, 8, 32, { 8, 2, 16 }, 16, 0, "need (8, 2, 32)" },
        { 64, 8, 4, 24, { 8, 2, 16 }, 16, 0, "block_size is 24" },
        { 64, 8, 4, 8, { 8, 8, 4 }, 64, 0, "block_size is 8" },
        { 64, 8, 3, 32, { 8, 2, 16 }, 16, 0, "bits is 3" },
        { 64, 8, 4, 32, { 8, 2, 16 }, 15, 0, "scales has 15 elements" },
        { 64, 8, 4, 32, { 8, 2, 16 }, 16, 16, "zero_points has 16 elements" },
        { 65, 8, 4, 32, { 8, 3, 16 }, 24, 0, "its last dimension must be K, 65" },
        { 1000000000000000, 8, 4, 32, { 8, 2, 16 }, 16, 0, "B is (8, 2, 16)" },
        { 64, 1000000000000000, 4, 32, { 8, 2, 16 }, 16, 0, "B is (8, 2, 16)" },
        { 64, 8, 4, 1LL << 49, { 8, 1, 16 }, 8, 0, "need (8, 1, 281474976710656)" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++)
        expect_refused(&malformed[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_match_numpy),
        cmocka_unit_test(test_linear_layers_match_reference),
        cmocka_unit_test(test_matmul_nbits_matches_reference),
        cmocka_unit_test(test_scales_and_zero_points_are_listed),
        cmocka_unit_test(test_weights_stay_packed),
        cmocka_unit_test(test_malformed_models_are_refused),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}
