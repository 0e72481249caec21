/* test_loss.c - losses and distillation terms against PyTorch's and against finite differences. */
#include "case_names.h"

#include <math.h>

#include "base/rng.h"
#include "train/distill.h"
#include "train/loss.h"

static struct pare_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

/* A loss; or a distillation term, which is added to a loss of 2 and a gradient of 1. */
struct term {
    const char *name;
    const void *conf;
    const struct pare_loss *loss;
};

static struct term make_term(const char *text)
{
    struct case_name c = parse_case_name(arena, text);
    struct term k = { .name = c.name };
    struct pare_err err;

    if (!strcmp(c.name, "soft")) {
        k.conf = case_conf(arena, &c, pare_distill_soft_opts, sizeof(struct pare_distill_soft));
    } else if (!strcmp(c.name, "layer")) {
        k.conf = case_conf(arena, &c, pare_distill_layer_opts, sizeof(struct pare_distill_layer));
    } else {
        assert_int_equal(pare_find_loss(c.name, &k.loss, &err), 0);
        k.conf = case_conf(arena, &c, k.loss->opts, k.loss->conf_size);
    }
    return k;
}

static int run_term(const struct term *k, const struct pare_tensor *x, const struct pare_tensor *t,
                    float *grad, double *loss, struct pare_err *err)
{
    for (int64_t i = 0; grad && i < pare_numel(x); i++)
        grad[i] = k->loss ? NAN : 1;
    *loss = k->loss ? (double)NAN : 2;
    if (k->loss)
        return k->loss->run(k->conf, x, t, grad, loss, err);
    if (!strcmp(k->name, "soft"))
        return pare_distill_soft(k->conf, x, t, grad, loss, err);
    return pare_distill_layer(k->conf, x, t, grad, loss, err);
}

static void expect_near(const char *what, double got, double want, double tol)
{
    if (!(fabs(got - want) <= tol * (1 + fabs(want))))
        fail_msg("%s: %.9g, expected %.9g", what, got, want);
}

static void test_losses_match_pytorch(void **state)
{
    struct pare_named *list;
    int n, seen = 0;

    (void)state;
    list = read_cases(arena, "golden/loss.npz", &n);
    assert_int_equal(n % 4, 0);
    for (int i = 0; i < n; i += 4, seen++) {
        struct term k = make_term(list[i].name);
        const struct pare_tensor *x = &list[i].t, *t = &list[i + 1].t;
        double want = *(double *)list[i + 2].t.data, loss, alone;
        const double *want_grad = list[i + 3].t.data;
        float *grad = pare_alloc(arena, (size_t)pare_numel(x), sizeof(*grad));
        struct pare_err err;

        assert_int_equal(run_term(&k, x, t, grad, &loss, &err), 0);
        assert_int_equal(run_term(&k, x, t, NULL, &alone, &err), 0);
        expect_near(list[i].name, loss, want, 1e-6);
        assert_true(loss == alone);
        for (int64_t j = 0; j < pare_numel(x); j++)
            expect_near(list[i].name, (double)grad[j], want_grad[j], 1e-6);
    }
    assert_true(seen >= 15);
}

/* Gradients against finite differences, of larger shapes than the golden file has. */
static void check_differences(const char *text, int rank, const int64_t *dim)
{
    struct term k = make_term(text);
    struct pare_tensor x, t;
    struct pare_rng r;
    struct pare_err err;
    bool class = k.loss && k.loss->labels == PARE_LABELS_CLASS;
    int64_t label_dim[PARE_MAX_RANK], n;
    const double h = 1.0 / 64;
    double loss;
    float *grad;

    pare_rng_init(&r, 7);
    assert_int_equal(pare_tensor_new(arena, &x, PARE_F32, rank, dim, &err), 0);
    n = pare_numel(&x);
    label_dim[0] = dim[0];
    for (int i = 2; i < rank; i++)
        label_dim[i - 1] = dim[i];
    assert_int_equal(pare_tensor_new(arena, &t, class ? PARE_I64 : PARE_F32,
                                     class ? rank - 1 : rank, class ? label_dim : dim, &err),
                     0);
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&x)[i] = (float)(round(pare_rng_normal(&r) * 1024) / 1024);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        if (class)
            pare_i64_mut(&t)[i] = (int64_t)pare_rng_below(&r, (uint64_t)dim[1]);
        else
            pare_f32_mut(&t)[i] = (float)pare_rng_uniform(&r) * 3 - 8; /* far from kinks */
    grad = pare_alloc(arena, (size_t)n, sizeof(*grad));
    assert_int_equal(run_term(&k, &x, &t, grad, &loss, &err), 0);
    for (int64_t i = 0; i < n; i += 1 + n / 200) {
        float old = pare_f32(&x)[i];
        double l[4], d;

        for (int j = 0; j < 4; j++) {
            static const double move[] = { -2, -1, 1, 2 };

            pare_f32_mut(&x)[i] = old + (float)(move[j] * h);
            assert_int_equal(run_term(&k, &x, &t, NULL, &l[j], &err), 0);
        }
        pare_f32_mut(&x)[i] = old;
        d = (8 * (l[2] - l[1]) - (l[3] - l[0])) / (12 * h);
        expect_near(text, (double)grad[i] - (k.loss ? 0 : 1), d, 1e-4);
    }
}

static void test_gradients_against_finite_differences(void **state)
{
    static const int64_t flat[] = { 5, 37 }, image[] = { 2, 5, 9, 11 };
    static const char *const texts[] = { "cross_entropy",
                                         "cross_entropy,label_smoothing=0.3",
                                         "bce",
                                         "mse",
                                         "l1",
                                         "smooth_l1",
                                         "kl,log_target=true",
                                         "soft,temperature=3",
                                         "layer,lambda=3",
                                         "layer,method=kl" };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        check_differences(texts[i], 2, flat);
        check_differences(texts[i], 4, image);
    }
}

/* (N, C, H, W) gives the same as its transpose (N H W, C), for which other loops run. */
static void test_images_match_rows(void **state)
{
    static const int64_t image[] = { 2, 6, 10, 13 }, rows[] = { 260, 6 }, label[] = { 2, 10, 13 };
    struct pare_tensor x, y, t, u, c;
    struct pare_rng r;
    struct pare_err err;
    float ga[1560], gb[1560];
    double a, b;

    (void)state;
    pare_rng_init(&r, 3);
    assert_int_equal(pare_tensor_new(arena, &x, PARE_F32, 4, image, &err), 0);
    assert_int_equal(pare_tensor_new(arena, &t, PARE_F32, 4, image, &err), 0);
    assert_int_equal(pare_tensor_new(arena, &y, PARE_F32, 2, rows, &err), 0);
    assert_int_equal(pare_tensor_new(arena, &u, PARE_F32, 2, rows, &err), 0);
    assert_int_equal(pare_tensor_new(arena, &c, PARE_I64, 3, label, &err), 0);
    for (int i = 0; i < 1560; i++) {
        int to = (i / 780 * 130 + i % 130) * 6 + i / 130 % 6;

        pare_f32_mut(&y)[to] = pare_f32_mut(&x)[i] = (float)(5 * pare_rng_normal(&r));
        pare_f32_mut(&u)[to] = pare_f32_mut(&t)[i] = (float)(5 * pare_rng_normal(&r));
    }
    for (int i = 0; i < 260; i++)
        pare_i64_mut(&c)[i] = i % 13 ? i % 6 : -100;
    for (int k = 0; k < 2; k++) {
        struct term f = make_term(k ? "soft,temperature=2" : "cross_entropy,label_smoothing=0.1");
        struct pare_tensor flat = c;

        flat.rank = 1;
        flat.dim[0] = 260;
        assert_int_equal(run_term(&f, &x, k ? &t : &c, ga, &a, &err), 0);
        assert_int_equal(run_term(&f, &y, k ? &u : &flat, gb, &b, &err), 0);
        expect_near("loss", a, k ? (b - 2) * 130 + 2 : b,
                    1e-6); /* k 1: the mean is over N, not N H W */
        for (int i = 0; i < 1560; i++) {
            int to = (i / 780 * 130 + i % 130) * 6 + i / 130 % 6;
            double want = (double)gb[to];

            expect_near("gradient", (double)ga[i], k ? (want - 1) * 130 + 1 : want, 2e-5);
        }
    }
}

/* Large logits give finite losses and gradients. */
static void test_large_logits(void **state)
{
    static float x[] = { 1000, 990, -1000, -3e38f, 3e38f, 0 },
                 bx[] = { 90, -90, 1e4f, -1e4f, 0, 1 };
    static float bt[] = { 1, 0, 1, 0, 0.5f, 1 };
    static int64_t y[] = { 0, 1 };
    struct pare_tensor out = { PARE_F32, 2, { 2, 3 }, x }, t = { PARE_I64, 1, { 2 }, y };
    struct term ce = make_term("cross_entropy"), bce = make_term("bce");
    struct pare_err err;
    double loss;
    float grad[6];

    (void)state;
    assert_int_equal(run_term(&ce, &out, &t, grad, &loss, &err), 0);
    expect_near("cross_entropy", loss, log1p(exp(-10)) / 2, 1e-9);
    for (int i = 0; i < 6; i++)
        assert_true(isfinite(grad[i]));
    out.data = bx;
    t = out;
    t.data = bt;
    assert_int_equal(run_term(&bce, &out, &t, grad, &loss, &err), 0);
    expect_near("bce", loss, (log(2) + log1p(exp(-1))) / 6, 1e-7);
}

static void test_empty_batches_and_ignored_labels(void **state)
{
    static float x[] = { 1, 2, 3, 4 };
    static int64_t y[] = { -100, -100 };
    struct pare_tensor out = { PARE_F32, 2, { 2, 2 }, x }, t = { PARE_I64, 1, { 2 }, y };
    struct term ce = make_term("cross_entropy");
    struct pare_err err;
    double loss;
    float grad[4];

    (void)state;
    assert_int_equal(run_term(&ce, &out, &t, grad, &loss, &err), 0);
    assert_true(loss == 0);
    for (int i = 0; i < 4; i++)
        assert_true(grad[i] == 0);
    out.dim[0] = t.dim[0] = 0;
    assert_int_equal(run_term(&ce, &out, &t, grad, &loss, &err), 0);
    assert_true(loss == 0);
    for (int k = 0; pare_losses[k]; k++) {
        struct term f = make_term(pare_losses[k]->name);

        if (f.loss->labels == PARE_LABELS_CLASS)
            continue;
        assert_int_equal(run_term(&f, &out, &out, grad, &loss, &err), 0);
        assert_true(loss == 0);
    }
}

static void test_wrong_shapes_and_labels_are_errors(void **state)
{
    static float x[6];
    static int64_t y[] = { 1, 3 };
    struct pare_tensor out = { PARE_F32, 2, { 2, 3 }, x }, t = { PARE_I64, 1, { 2 }, y }, u = out;
    struct term ce = make_term("cross_entropy"), mse = make_term("mse"), soft = make_term("soft");
    struct pare_err err;
    double loss;

    (void)state;
    assert_int_equal(run_term(&ce, &out, &t, NULL, &loss, &err), PARE_ESHAPE);
    assert_string_equal(err.msg, "label 3 at index 1 is not one of the model's 3 classes");
    y[1] = -1;
    assert_int_equal(run_term(&ce, &out, &t, NULL, &loss, &err), PARE_ESHAPE);
    t.dim[0] = 1;
    assert_int_equal(run_term(&ce, &out, &t, NULL, &loss, &err), PARE_ESHAPE);
    assert_string_equal(err.msg, "the model's output is (2, 3) and the labels are (1), "
                                 "cross_entropy needs (N, C, ...) and (N, ...)");
    assert_int_equal(run_term(&ce, &out, &u, NULL, &loss, &err), PARE_ESHAPE);
    assert_int_equal(run_term(&mse, &out, &t, NULL, &loss, &err), PARE_ESHAPE);
    u.rank = 1;
    assert_int_equal(run_term(&mse, &out, &u, NULL, &loss, &err), PARE_ESHAPE);
    assert_int_equal(run_term(&soft, &out, &u, NULL, &loss, &err), PARE_ESHAPE);
    assert_int_equal(run_term(&soft, &u, &u, NULL, &loss, &err), PARE_ESHAPE);
    u = out;
    u.dtype = PARE_F64;
    assert_int_equal(run_term(&mse, &u, &out, NULL, &loss, &err), PARE_ESHAPE);
    assert_int_equal(run_term(&ce, &u, &t, NULL, &loss, &err), PARE_ESHAPE);
    assert_int_equal(run_term(&soft, &u, &u, NULL, &loss, &err), PARE_ESHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_match_pytorch),
        cmocka_unit_test(test_gradients_against_finite_differences),
        cmocka_unit_test(test_images_match_rows),
        cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_empty_batches_and_ignored_labels),
        cmocka_unit_test(test_wrong_shapes_and_labels_are_errors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
