/* test_distill.c - observed values of a plan, and layer-wise distillation. */
#include <math.h>

#include "small_cnn.h"

#include "base/options.h"
#include "plan/plan.h"
#include "train/trainer.h"

static struct pare_err err;

static int setup(void **state)
{
    (void)state;
    pool = pare_arena_new(1 << 20);
    return pool ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(pool);
    return 0;
}

/* ---- observed values ---------------------------------------------------------------------- */

/* The inputs and the results of all nodes. */
static struct pare_strs all_value_names(const struct pare_model *m)
{
    const struct pare_graph *g = m->graph;
    const char **v = pare_alloc(pool, (size_t)g->n_values, sizeof(*v));
    int n = 0;

    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->maker || g->value[i]->flags & PARE_V_INPUT)
            v[n++] = g->value[i]->name;
    return (struct pare_strs){ v, n };
}

static void assert_close(const struct pare_tensor *a, const struct pare_tensor *b, double tol,
                         const char *name)
{
    assert_true(a->data && b->data && a->dtype == PARE_F32 && pare_same_shape(a, b));
    for (int64_t i = 0; i < pare_numel(a); i++) {
        double x = (double)pare_f32(a)[i], y = (double)pare_f32(b)[i];

        if (!(fabs(x - y) <= tol * (1 + fabs(y))))
            fail_msg("%s[%lld] is %.9g, expected %.9g", name, (long long)i, x, y);
    }
}

static void test_observed_values_match_reference(void **state)
{
    static const char *const absent[] = { "absent" };
    const struct pare_plan_opts reference = { .reference = true };
    struct pare_plan_build build = { .opts = NULL }, none = { .observe = { absent, 1 } };
    struct small_cnn c;
    struct pare_model *m;
    struct pare_plan *fast, *direct;
    struct pare_tensor x, out[2];
    struct pare_strs observed;

    (void)state;
    small_cnn(&c, PARE_F32, PARE_F32);
    m = build_model(&c.b);
    x = small_input(&c);
    observed = build.observe = all_value_names(m);
    assert_int_equal(pare_plan_build(m, &build, &fast, &err), 0);
    build.opts = &reference;
    assert_int_equal(pare_plan_build(m, &build, &direct, &err), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(pare_plan_execute(fast, &x, &out[0], &err), 0);
        assert_int_equal(pare_plan_execute(direct, &x, &out[1], &err), 0);
        /* Winograd convolutions differ from direct sums by about 1e-5 of the largest value. */
        assert_close(&out[0], &out[1], 5e-5, "output");
        for (int i = 0; i < observed.n; i++)
            assert_close(pare_plan_value(fast, i), pare_plan_value(direct, i), 5e-5, observed.v[i]);
    }
    pare_plan_free(fast);
    pare_plan_free(direct);
    assert_int_equal(pare_plan_build(m, &none, &fast, &err), PARE_ECONFIG);
    assert_string_equal(err.msg, "model: the graph has no value 'absent' to observe");
    pare_model_free(m);
}

/* Gradients of all parameters of a trainer, concatenated. */
static float *concat_gradients(const struct pare_trainer *t, int64_t *n)
{
    float *all;

    *n = 0;
    for (int i = 0; i < t->n_params; i++)
        *n += pare_numel(&t->grad[i]);
    all = pare_alloc(pool, (size_t)*n, sizeof(*all));
    *n = 0;
    for (int i = 0; i < t->n_params; i++) {
        memcpy(all + *n, t->grad[i].data, (size_t)pare_numel(&t->grad[i]) * sizeof(*all));
        *n += pare_numel(&t->grad[i]);
    }
    return all;
}

static struct pare_trainer_opts trainer_opts(void)
{
    struct pare_trainer_opts o = { .threads = 1 };
    void *sgd;

    assert_int_equal(pare_find_loss("mse", &o.loss, &err), 0);
    assert_int_equal(pare_find_optimizer("sgd", &o.optimizer, &err), 0);
    sgd = pare_alloc(pool, 1, o.optimizer->conf_size);
    assert_int_equal(pare_opts_apply(o.optimizer->opts, NULL, 0, sgd, pool, &err), 0);
    o.optimizer_conf = sgd;
    o.soft = (struct pare_distill_soft){ .alpha = 1, .temperature = 4, .t_squared = true };
    return o;
}

/* Observing values changes no gradient. */
static void test_observing_keeps_gradients(void **state)
{
    struct small_cnn c;
    struct pare_trainer_opts o = trainer_opts();
    struct pare_score score[2];
    float *grad[2];
    int64_t n[2];

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct pare_trainer *t;
        struct pare_model *m;
        struct pare_tensor x, y;

        small_cnn(&c, PARE_F32, PARE_F32);
        m = build_model(&c.b);
        x = small_input(&c);
        y = build_tensor(PARE_F32, INTS(2, 10));
        o.observe = k ? all_value_names(m) : o.observe;
        assert_int_equal(pare_trainer_new(m, &o, &t, &err), 0);
        if (pare_trainer_gradient(t, &x, &y, &score[k], &err))
            fail_msg("%s", err.msg);
        grad[k] = concat_gradients(t, &n[k]);
        pare_trainer_free(t);
        pare_model_free(m);
    }
    assert_true(n[0] == n[1]);
    assert_true(fabs(score[0].loss - score[1].loss) <= 1e-6 * score[0].loss);
    for (int64_t i = 0; i < n[0]; i++)
        assert_true(fabs((double)(grad[0][i] - grad[1][i])) <=
                    1e-6 + 1e-4 * fabs((double)grad[0][i]));
}

/* ---- distillation of layers ----------------------------------------------------------------- */

/* A smooth network, so that finite differences work, with a branch that does not reach the
 * output. */
struct smooth {
    struct pare_model *model;
    const char *conv1, *conv2, *flat, *gemm, *aside;
};

static struct smooth make_smooth(uint64_t seed)
{
    struct small_cnn c = { .dtype = PARE_F32, .through = PARE_F32, .b = { .opset = 17 } };
    struct build *b = &c.b;
    struct smooth s;
    const char *x, *w, *bias, *y;

    pare_rng_init(&c.rng, seed);
    x = build_input(b, PARE_F32, INTS(2, 3, 6, 6));
    w = SMALL(&c, 0, 16, 3, 3, 3);
    bias = SMALL(&c, 0, 16);
    s.conv1 = build_node(b, "Conv", NAMES(x, w, bias), at_ints("pads", INTS(1, 1, 1, 1)));
    y = build_node(b, "Sigmoid", NAMES(s.conv1), NOTHING);
    w = SMALL(&c, 0, 5, 16, 3, 3);
    bias = SMALL(&c, 0, 5);
    s.conv2 = build_node(b, "Conv", NAMES(y, w, bias), at_ints("strides", INTS(2, 2)));
    y = build_node(b, "Tanh", NAMES(s.conv2), NOTHING);
    w = SMALL(&c, 0, 4, 5, 1, 1);
    s.aside = build_node(b, "Conv", NAMES(y, w), NOTHING);
    s.flat = build_node(b, "Flatten", NAMES(y), NOTHING);
    w = SMALL(&c, 0, 20, 4);
    bias = SMALL(&c, 0, 4);
    s.gemm = build_node(b, "Gemm", NAMES(s.flat, w, bias), NOTHING);
    build_output(b, build_node(b, "Identity", NAMES(s.gemm), NOTHING));
    s.model = build_model(b);
    return s;
}

static double compute_loss(struct pare_trainer *t, const struct pare_tensor *x,
                           const struct pare_tensor *y)
{
    struct pare_score s;

    if (pare_trainer_forward(t, x, NULL, &err) || pare_trainer_loss(t, y, &s, &err))
        fail_msg("%s", err.msg);
    return s.loss;
}

/* d loss / d h along a random direction of one parameter, by the four-point formula. */
static double directional_slope(struct pare_trainer *t, int p, const float *dir,
                                const struct pare_tensor *x, const struct pare_tensor *y)
{
    static const double at[] = { -2, -1, 1, 2 }, weight[] = { 1, -8, 8, -1 };
    const double h = 2e-2;
    int64_t n = pare_numel(&t->param[p].value);
    float *w = pare_f32_mut(&t->param[p].value);
    float *kept = pare_alloc(pool, (size_t)n, sizeof(*kept));
    double sum = 0;

    memcpy(kept, w, (size_t)n * sizeof(*w));
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < n; i++)
            w[i] = (float)((double)kept[i] + at[k] * h * (double)dir[i]);
        sum += weight[k] * compute_loss(t, x, y);
    }
    memcpy(w, kept, (size_t)n * sizeof(*w));
    return sum / (12 * h);
}

static void check_gradient(struct pare_trainer *t, const struct pare_tensor *x,
                           const struct pare_tensor *y)
{
    struct pare_score s;
    struct pare_rng r;

    pare_rng_init(&r, 5);
    for (int p = 0; p < t->n_params; p++) {
        int64_t n = pare_numel(&t->param[p].value);
        float *dir = pare_alloc(pool, (size_t)n, sizeof(*dir));
        double want, have = 0;

        for (int64_t i = 0; i < n; i++)
            dir[i] = (float)pare_rng_normal(&r) / sqrtf((float)n);
        want = directional_slope(t, p, dir, x, y);
        if (pare_trainer_gradient(t, x, y, &s, &err))
            fail_msg("%s", err.msg);
        for (int64_t i = 0; i < n; i++)
            have += (double)dir[i] * (double)pare_f32(&t->grad[p])[i];
        if (fabs(have - want) > 2e-4 * (1 + fabs(want)))
            fail_msg("parameter %s: %.9g, finite differences give %.9g", t->name[p], have, want);
    }
}

static struct pare_tensor random_tensor(int rank, const int64_t *dim, uint64_t seed)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng r;

    pare_rng_init(&r, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)pare_rng_normal(&r);
    return t;
}

static void test_distillation_gradients(void **state)
{
    struct pare_tensor x = random_tensor(INTS(2, 3, 6, 6), 1), y = random_tensor(INTS(2, 4), 2);
    struct smooth s = make_smooth(1), t = make_smooth(2);
    const struct pare_distill_layer mse = { 1.5, "mse", 2 }, kl = { 0.7, "kl", 2 };
    struct pare_distill_link link[] = { { s.conv1, t.conv1, kl },
                                        { s.conv2, t.conv2, mse },
                                        { s.flat, t.flat, mse },
                                        { s.gemm, t.gemm, kl },
                                        { s.aside, t.aside, mse } };
    struct pare_trainer_opts o = trainer_opts();

    (void)state;
    o.teacher = t.model;
    o.link = link;
    for (int k = 0; k < 14; k++) { /* each layer alone, then all; fast and reference kernels */
        struct pare_trainer *trainer;

        o.link = k % 7 < 5 ? &link[k % 7] : link;
        o.n_links = k % 7 < 5 ? 1 : 5;
        o.soft.beta = k % 7 == 6 ? 1 : 0;
        o.soft.alpha = k % 7 == 6 ? 0.5 : 1;
        o.reference = k >= 7;
        assert_int_equal(pare_trainer_new(s.model, &o, &trainer, &err), 0);
        check_gradient(trainer, &x, &y);
        pare_trainer_free(trainer);
    }
    pare_model_free(s.model);
    pare_model_free(t.model);
}

static void test_distillation_reduces_its_terms(void **state)
{
    struct pare_tensor x = random_tensor(INTS(2, 3, 6, 6), 1), y = random_tensor(INTS(2, 4), 2);
    struct smooth s = make_smooth(1), t = make_smooth(2);
    struct pare_distill_link link[] = { { s.conv1, t.conv1, { 1, "mse", 2 } },
                                        { s.conv2, t.conv2, { 1, "kl", 2 } } };
    struct pare_trainer_opts o = trainer_opts();
    struct pare_trainer *trainer;
    struct pare_score score;
    double first[2] = { 0 };

    (void)state;
    o.teacher = t.model;
    o.link = link;
    o.n_links = 2;
    o.soft.alpha = 0;
    assert_int_equal(pare_trainer_new(s.model, &o, &trainer, &err), 0);
    for (int i = 0; i < 150; i++) {
        assert_int_equal(pare_trainer_gradient(trainer, &x, &y, &score, &err), 0);
        assert_int_equal(pare_trainer_update(trainer, 0.5, &err), 0);
        assert_true(fabs(score.loss - trainer->layers.term[0] - trainer->layers.term[1]) < 1e-9);
        for (int k = 0; k < 2 && !i; k++)
            first[k] = trainer->layers.term[k];
    }
    for (int k = 0; k < 2; k++)
        assert_true(trainer->layers.term[k] < 0.25 * first[k]);
    pare_trainer_free(trainer);
    pare_model_free(s.model);
    pare_model_free(t.model);
}

static void expect_error(const struct smooth *s, const struct smooth *t, const char *a,
                         const char *b, const char *expected)
{
    struct pare_tensor x = random_tensor(INTS(2, 3, 6, 6), 1), y = random_tensor(INTS(2, 4), 2);
    struct pare_distill_link link = { a, b, { 1, "mse", 2 } };
    struct pare_trainer_opts o = trainer_opts();
    struct pare_trainer *trainer;
    struct pare_score score;
    int rc;

    o.teacher = t->model;
    o.link = &link;
    o.n_links = 1;
    rc = pare_trainer_new(s->model, &o, &trainer, &err);
    if (!rc)
        rc = pare_trainer_gradient(trainer, &x, &y, &score, &err);
    assert_int_not_equal(rc, 0);
    assert_string_equal(err.msg, expected);
    pare_trainer_free(trainer);
}

static void test_wrong_layers_are_errors(void **state)
{
    struct smooth s = make_smooth(1), t = make_smooth(2);

    (void)state;
    expect_error(
        &s, &t, s.conv1, t.conv2,
        pare_sprintf(pool,
                     "layer '%s' and the teacher's '%s': the student's shape is (2, 16, 6, 6) and "
                     "the teacher's (2, 5, 2, 2), they must agree",
                     s.conv1, t.conv2));
    expect_error(&s, &t, s.conv1, "unheard-of", "the teacher: there is no layer 'unheard-of'");
    expect_error(&s, &t, pare_sprintf(pool, "%s0", s.conv2), t.conv2,
                 pare_sprintf(pool, "the student: there is no layer '%s0' (did you mean '%s'?)",
                              s.conv2, s.conv2));
    pare_model_free(s.model);
    pare_model_free(t.model);
}

/* ---- options ------------------------------------------------------------------------------ */

static void test_layer_pair_options(void **state)
{
    static const char *const text[] = { "conv2", "fc1=classifier.0" }, *const bad[] = { "=x" };
    static const char *const methods[] = { "mse", "kl" }, *const wrong[] = { "kll" };
    static const double lambdas[] = { 2, 3, 4 };
    struct pare_strs two = { text, 2 };
    struct pare_distill_how how = { .temperature = 2 };
    struct pare_distill_link *l;

    (void)state;
    assert_int_equal(pare_distill_links(two, &how, pool, &l, &err), 0);
    assert_string_equal(l[0].student, "conv2");
    assert_string_equal(l[0].teacher, "conv2");
    assert_string_equal(l[1].student, "fc1");
    assert_string_equal(l[1].teacher, "classifier.0");
    assert_true(l[1].conf.lambda == 1 && !strcmp(l[1].conf.method, "mse"));
    how.lambda = (struct pare_floats){ lambdas, 2 };
    how.method = (struct pare_strs){ methods, 2 };
    assert_int_equal(pare_distill_links(two, &how, pool, &l, &err), 0);
    assert_true(l[1].conf.lambda == 3 && !strcmp(l[1].conf.method, "kl"));
    how.lambda.n = 3;
    assert_int_equal(pare_distill_links(two, &how, pool, &l, &err), PARE_ECONFIG);
    assert_string_equal(
        err.msg, "distill-lambda has 3 values for 2 layers, expected one value or one per layer");
    how.lambda.n = 1;
    how.method = (struct pare_strs){ wrong, 1 };
    assert_int_equal(pare_distill_links(two, &how, pool, &l, &err), PARE_ECONFIG);
    assert_string_equal(err.msg, "there is no method to compare layers 'kll' (did you mean 'kl'?)");
    how.method.n = 0;
    assert_int_equal(pare_distill_links((struct pare_strs){ bad, 1 }, &how, pool, &l, &err),
                     PARE_ECONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_observed_values_match_reference),
        cmocka_unit_test(test_observing_keeps_gradients),
        cmocka_unit_test(test_distillation_gradients),
        cmocka_unit_test(test_distillation_reduces_its_terms),
        cmocka_unit_test(test_layer_pair_options),
        cmocka_unit_test(test_wrong_layers_are_errors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
