/* test_repair.c - least-squares repair: no other weights are better, inputs that did not change
 * give the weights, networks with residual sums, depthwise layers and batch normalization, failing
 * allocations. */
#include "make_model.h"

#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "compress/held_out.h"
#include "compress/least_squares.h"
#include "compress/repair.h"
#include "pipeline/repair_choice.h"

#include <pare/data.h>

enum { ROWS = 4, K = 30, N = 400 };

static struct pare_err err;
static double x[N * K], d[N * K], w[ROWS * K], g[K * K], cross[K * K], mean[K], d_mean[K];
static double out[ROWS * K], shift[ROWS];
static uint8_t keep[K];

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

/* x: d with noise and with columns of 0; keep: the others. */
static void make_inputs(bool same)
{
    struct pare_rng rng;

    pare_rng_init(&rng, 5);
    memset(g, 0, sizeof(g));
    memset(cross, 0, sizeof(cross));
    memset(mean, 0, sizeof(mean));
    memset(d_mean, 0, sizeof(d_mean));
    for (int n = 0; n < N; n++) {
        double common = pare_rng_normal(&rng);

        for (int k = 0; k < K; k++) {
            keep[k] = same || k % 3 != 0;
            d[n * K + k] = 0.4 + common + pare_rng_normal(&rng);
            x[n * K + k] = same ? d[n * K + k] : keep[k] ? d[n * K + k] * 0.9 + 0.1 * common : 0;
        }
    }
    for (int n = 0; n < N; n++)
        for (int a = 0; a < K; a++) {
            mean[a] += x[n * K + a] / N;
            d_mean[a] += d[n * K + a] / N;
            for (int b = 0; b < K; b++) {
                g[a * K + b] += x[n * K + a] * x[n * K + b] / N;
                cross[a * K + b] += d[n * K + a] * x[n * K + b] / N;
            }
        }
    for (int i = 0; i < ROWS * K; i++)
        w[i] = pare_rng_normal(&rng);
}

static double error_of(const double *v, const double *b)
{
    double sum = 0;

    for (int n = 0; n < N; n++)
        for (int r = 0; r < ROWS; r++) {
            double e = b[r];

            for (int k = 0; k < K; k++)
                e += v[r * K + k] * x[n * K + k] - w[r * K + k] * d[n * K + k];
            sum += e * e / N;
        }
    return sum;
}

static struct pare_least_squares problem(bool biased, double damping)
{
    return (struct pare_least_squares){ .rows = ROWS,
                                        .k = K,
                                        .w = w,
                                        .g = g,
                                        .cross = cross,
                                        .mean = biased ? mean : NULL,
                                        .cross_mean = biased ? d_mean : NULL,
                                        .keep = keep,
                                        .damping = damping,
                                        .threads = 2,
                                        .out = out,
                                        .shift = shift };
}

static void test_no_other_weights_are_better(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_rng rng;

    (void)state;
    pare_rng_init(&rng, 11);
    for (int biased = 0; biased < 2; biased++) {
        struct pare_least_squares s;
        double best, none[ROWS] = { 0 };

        make_inputs(false);
        s = problem(biased, 1e-12);
        ok(pare_least_squares(&s, a, &err));
        assert_false(s.failed);
        best = error_of(out, shift);
        assert_true(best < error_of(w, none));
        assert_true(s.after < s.before);
        for (int i = 0; i < 200; i++) {
            double v[ROWS * K], b[ROWS];
            double size = pow(10, -1 - i % 5);

            for (int k = 0; k < ROWS * K; k++)
                v[k] = out[k] + (keep[k % K] ? size * pare_rng_normal(&rng) : 0);
            for (int r = 0; r < ROWS; r++)
                b[r] = shift[r] + (biased ? size * pare_rng_normal(&rng) : 0);
            assert_true(error_of(v, b) > best - 1e-9);
        }
        for (int k = 0; k < ROWS * K; k++)
            assert_true(keep[k % K] || out[k] == 0);
    }
    pare_arena_free(a);
}

static void test_unchanged_inputs_give_the_weights(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);

    (void)state;
    for (int biased = 0; biased < 2; biased++) {
        struct pare_least_squares s;

        make_inputs(true);
        s = problem(biased, 1e-2); /* damping does not matter */
        ok(pare_least_squares(&s, a, &err));
        for (int i = 0; i < ROWS * K; i++)
            assert_true(fabs(out[i] - w[i]) < 1e-5);
        for (int r = 0; r < ROWS; r++)
            assert_true(fabs(shift[r]) < 1e-5);
    }
    pare_arena_free(a);
}

static void test_degenerate_statistics_keep_the_weights(void **state)
{
    const double bad[] = { 0, NAN, INFINITY };
    struct pare_arena *a = pare_arena_new(1 << 16);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_least_squares s;

        make_inputs(false);
        for (int k = 0; k < K * K; k++)
            g[k] = cross[k] = bad[i];
        s = problem(false, 1e-3);
        ok(pare_least_squares(&s, a, &err));
        assert_true(s.failed);
        for (int k = 0; k < ROWS * K; k++)
            assert_true(keep[k % K] ? out[k] == w[k] : out[k] == 0);
    }
    pare_arena_free(a);
}

/* ---- networks -------------------------------------------------------------------------------- */

enum { ITEMS = 64, C = 6, SIDE = 6 };

static const char *random_weight(struct build *b, int rank, const int64_t *dim, uint64_t seed,
                                 float plus)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = plus + 0.3f * (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

static const char *conv(struct build *b, const char *in, const int64_t *dim, int64_t group,
                        uint64_t seed, bool bias)
{
    const int64_t k = dim[2];
    const char *weight = random_weight(b, 4, dim, seed, 0);
    const char *add = bias ? random_weight(b, 1, dim, seed + 50, 0) : NULL;
    struct bin attrs = CAT(at_int("group", group),
                           at_ints("pads", 4, (int64_t[]){ k / 2, k / 2, k / 2, k / 2 }));

    return bias ? build_node(b, "Conv", NAMES(in, weight, add), attrs)
                : build_node(b, "Conv", NAMES(in, weight), attrs);
}

/* A residual block, a depthwise and a pointwise layer, one of them normalized, a linear layer. */
static struct pare_model *network(void)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE }), *y, *z;

    y = build_node(&b, "Relu", NAMES(conv(&b, in, (int64_t[]){ 8, C, 3, 3 }, 1, 1, true)), NOTHING);
    z = build_node(&b, "Relu", NAMES(conv(&b, y, (int64_t[]){ 8, 8, 3, 3 }, 1, 2, true)), NOTHING);
    y = build_node(&b, "Add", NAMES(y, conv(&b, z, (int64_t[]){ 8, 8, 3, 3 }, 1, 3, true)),
                   NOTHING);
    y = build_node(&b, "Relu", NAMES(conv(&b, y, (int64_t[]){ 8, 1, 3, 3 }, 8, 4, true)), NOTHING);
    y = conv(&b, y, (int64_t[]){ 8, 8, 1, 1 }, 1, 5, false);
    y = build_node(&b, "BatchNormalization",
                   NAMES(y, random_weight(&b, 1, (int64_t[]){ 8 }, 6, 1),
                         random_weight(&b, 1, (int64_t[]){ 8 }, 7, 0),
                         random_weight(&b, 1, (int64_t[]){ 8 }, 8, 0),
                         random_weight(&b, 1, (int64_t[]){ 8 }, 9, 3)),
                   NOTHING);
    y = build_node(&b, "Flatten", NAMES(build_node(&b, "Relu", NAMES(y), NOTHING)), NOTHING);
    build_output(&b, build_node(&b, "MatMul",
                                NAMES(y, random_weight(&b, 2, (int64_t[]){ 8 * SIDE * SIDE, 5 }, 10,
                                                       0)),
                                NOTHING));
    return build_model(&b);
}

static struct pare_tensor items;
static struct pare_data *data;

static int setup(void **state)
{
    struct pare_input in = { .t = { 0 } };
    struct pare_arrays a = { .n = ITEMS, .input = &in, .n_inputs = 1, .batch = 8 };
    struct pare_rng rng;

    (void)state;
    pool = pare_arena_new(1 << 16);
    items = build_tensor(PARE_F32, 4, (int64_t[]){ ITEMS, C, SIDE, SIDE });
    pare_rng_init(&rng, 3);
    for (int64_t i = 0; i < pare_numel(&items); i++) /* channels that resemble each other */
        pare_f32_mut(&items)[i] = (float)pare_rng_normal(&rng) * 0.4f +
                                  sinf((float)(i % (SIDE * SIDE)) + (float)(i / (C * SIDE * SIDE)));
    in.t = items;
    ok(pare_data_from_arrays(&a, &data, &err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_data_free(data);
    pare_arena_free(pool);
    return 0;
}

/* Zeroes channels of the convolutions `from`, from + 1, ... with their biases. */
static void remove_channels(struct pare_model *m, int from, int to)
{
    int at = 0;

    for (int i = 0; i < m->graph->n_nodes; i++) {
        struct pare_node *n = m->graph->node[i];

        if (strcmp(n->type, "Conv") != 0 || at++ < from || at > to)
            continue;
        for (int p = 1; p < n->n_in; p++) {
            struct pare_tensor *t = &n->in[p]->t;

            ok(pare_model_own(m, n->in[p], &err));
            for (int64_t e = 0; e < pare_numel(t); e++)
                if (e / (pare_numel(t) / t->dim[0]) % 3 == 1)
                    pare_f32_mut(t)[e] = 0;
        }
    }
}

/* Mean squared difference of the outputs for all items. */
static double difference(struct pare_model *a, struct pare_model *b)
{
    struct pare_model *m[2] = { a, b };
    struct pare_plan_opts o = { .in = &items, .batch = ITEMS, .threads = 1 };
    struct pare_tensor y[2];
    double sum = 0;
    float first[ITEMS * 5];

    for (int i = 0; i < 2; i++) {
        struct pare_plan *p;

        ok(pare_plan_make(m[i], &o, &p, &err));
        ok(pare_plan_execute(p, &items, &y[i], &err));
        for (int k = 0; k < ITEMS * 5 && i; k++)
            sum += pow((double)pare_f32(&y[1])[k] - (double)first[k], 2) / (ITEMS * 5);
        memcpy(first, y[i].data, sizeof(first));
        pare_plan_free(p);
    }
    return sum;
}

static void test_outputs_are_closer_after_repair(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct pare_model *dense = network(), *m = network();
        struct pare_repair r = { .dense = dense, .data = data, .ample = i > 2, .threads = 1 };
        double before;

        remove_channels(m, i % 3, i % 3 + 1);
        before = difference(dense, m);
        ok(pare_repair(m, &r, NULL, &err));
        assert_true(r.layers > 0 && r.skipped == r.ample); /* linear: 64 positions, 288 inputs */
        assert_true(difference(dense, m) < (r.ample ? 1 : 0.6) * before);
        pare_model_free(m);
        pare_model_free(dense);
    }
}

static void test_nothing_removed_changes_nothing(void **state)
{
    struct pare_model *dense = network(), *m = network();
    struct pare_repair r = { .dense = dense, .data = data, .threads = 1 };

    (void)state;
    ok(pare_repair(m, &r, NULL, &err));
    assert_int_equal(r.layers, 0);
    assert_true(difference(dense, m) == 0);
    pare_model_free(m);
    pare_model_free(dense);
}

/* Rows that are 0 stay 0, and so do single weights; the others of their rows are fitted. */
static void test_zeros_stay(void **state)
{
    struct pare_model *dense = network(), *m = network();
    struct pare_repair r = { .dense = dense, .data = data, .threads = 1 };
    struct pare_node *first = m->graph->node[0], *second = m->graph->node[2];
    float was;

    (void)state;
    assert_string_equal(second->type, "Conv");
    remove_channels(m, 0, 2);
    was = pare_f32(&second->in[1]->t)[1];
    pare_f32_mut(&second->in[1]->t)[0] = 0;
    ok(pare_repair(m, &r, NULL, &err));
    for (int64_t i = 0; i < pare_numel(&first->in[1]->t); i++)
        assert_true(i / (C * 9) % 3 != 1 || pare_f32(&first->in[1]->t)[i] == 0);
    assert_true(pare_f32(&second->in[1]->t)[0] == 0 && pare_f32(&second->in[1]->t)[1] != was);
    assert_true(r.skipped == 0 && r.layers > 0);
    pare_model_free(m);
    pare_model_free(dense);
}

/* Zeroes weights of all convolutions but the depthwise one; in rows: the same ones for 4 rows. */
static void remove_weights(struct pare_model *m, int rows)
{
    for (int i = 0; i < m->graph->n_nodes; i++) {
        struct pare_node *n = m->graph->node[i];
        struct pare_tensor *t;

        if (strcmp(n->type, "Conv") != 0 || n->in[1]->t.dim[1] == 1)
            continue;
        ok(pare_model_own(m, n->in[1], &err));
        t = &n->in[1]->t;
        for (int64_t e = 0, k = pare_numel(t) / t->dim[0]; e < pare_numel(t); e++)
            if ((e / k / rows * 7 + e % k * 5) % 3 != 0)
                pare_f32_mut(t)[e] = 0;
    }
}

static void test_weights_that_are_left_are_fitted(void **state)
{
    float one[8 * 8 * 9];

    (void)state;
    for (int rows = 1; rows <= 4; rows += 3)
        for (int threads = 1; threads <= 3; threads++) {
            struct pare_model *dense = network(), *m = network(), *cut = network();
            struct pare_repair r = { .dense = dense, .data = data, .threads = threads };
            const struct pare_tensor *fit = &m->graph->node[2]->in[1]->t;
            const struct pare_tensor *zeros = &cut->graph->node[2]->in[1]->t;

            remove_weights(m, rows);
            remove_weights(cut, rows);
            ok(pare_repair(m, &r, NULL, &err));
            assert_true(r.layers > 0 && r.skipped == 0);
            assert_true(difference(dense, m) < 0.6 * difference(dense, cut));
            for (int64_t i = 0; i < pare_numel(fit); i++)
                assert_true((pare_f32(fit)[i] == 0) == (pare_f32(zeros)[i] == 0));
            if (threads > 1)
                assert_memory_equal(one, fit->data, sizeof(one));
            memcpy(one, fit->data, sizeof(one));
            pare_model_free(cut);
            pare_model_free(m);
            pare_model_free(dense);
        }
}

static void test_failing_allocations(void **state)
{
    struct pare_model *dense = network(), *m = network();
    int failures = 0;

    (void)state;
    remove_channels(m, 0, 1);
    remove_weights(m, 1);
    for (int n = 1;; n += 1 + n / 8) {
        struct pare_repair r = { .dense = dense, .data = data, .items = 16, .threads = 1 };
        bool reached;
        int rc;

        pare_oom_countdown = -n;
        rc = pare_repair(m, &r, NULL, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        failures += rc != 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
        if (!reached)
            break;
    }
    assert_true(failures > 20);
    pare_model_free(m);
    pare_model_free(dense);
}

/* ---- statistics, and what is kept ------------------------------------------------------------ */

/* Mean and variance over all items of channel c of a value. */
static void moments(struct pare_model *m, const char *name, int64_t c, double *mean_of, double *var)
{
    struct pare_plan_opts o = { .in = &items, .batch = ITEMS, .threads = 1 };
    struct pare_plan_build b = { .opts = &o, .observe = { &name, 1 } };
    struct pare_plan *p;
    struct pare_tensor y;
    const struct pare_tensor *v;
    double sum = 0, square = 0;

    ok(pare_plan_build(m, &b, &p, &err));
    ok(pare_plan_execute(p, &items, &y, &err));
    v = pare_plan_value(p, 0);
    for (int n = 0; n < ITEMS; n++)
        for (int i = 0; i < SIDE * SIDE; i++) {
            double e = (double)pare_f32(v)[(n * v->dim[1] + c) * SIDE * SIDE + i];

            sum += e / (ITEMS * SIDE * SIDE);
            square += e * e / (ITEMS * SIDE * SIDE);
        }
    *mean_of = sum;
    *var = square - sum * sum;
    pare_plan_free(p);
}

static void test_statistics_become_those_of_the_original(void **state)
{
    struct pare_model *dense = network(), *m = network();
    struct pare_repair r = { .dense = dense, .data = data, .threads = 1 };
    double before = 0, after = 0;

    (void)state;
    remove_channels(m, 0, 1);
    for (int after_it = 0; after_it < 2; after_it++) {
        int convs = 0;

        if (after_it)
            ok(pare_correct_statistics(m, &r, &err));
        for (int i = 0; i < m->graph->n_nodes && convs < 4; i++) {
            const struct pare_node *n = m->graph->node[i];

            if (strcmp(n->type, "Conv") != 0 || convs++ == 0)
                continue; /* the first lost channels */
            for (int64_t c = 0; c < 8; c++) {
                double mid[2], var[2];

                moments(dense, n->out[0]->name, c, &mid[0], &var[0]);
                moments(m, n->out[0]->name, c, &mid[1], &var[1]);
                *(after_it ? &after : &before) += fabs(mid[0] - mid[1]) +
                                                  fabs(sqrt(var[0]) - sqrt(var[1]));
            }
        }
    }
    assert_int_equal(r.corrected, 3); /* not the first, nor the normalized one */
    assert_true(before > 0.1 && after < 1e-4);
    pare_model_free(m);
    pare_model_free(dense);
}

static void test_removed_channels_stay_removed(void **state)
{
    struct pare_model *dense = network(), *m = network();
    struct pare_repair r = { .dense = dense, .data = data, .threads = 1 };
    const struct pare_node *first = m->graph->node[0];

    (void)state;
    remove_channels(m, 0, 3);
    ok(pare_correct_statistics(m, &r, &err));
    for (int64_t i = 0; i < pare_numel(&first->in[1]->t); i++)
        assert_true(i / (C * 9) % 3 != 1 || pare_f32(&first->in[1]->t)[i] == 0);
    for (int64_t i = 1; i < 8; i += 3)
        assert_true(pare_f32(&first->in[2]->t)[i] == 0);
    pare_model_free(m);
    pare_model_free(dense);
}

static double cost_of(struct pare_model *dense, struct pare_model *m, struct pare_data *set)
{
    struct pare_held_out h = { .dense = dense, .data = set, .threads = 1 };
    struct pare_output_distance o;

    pare_held_out_divide(&h, 1024);
    ok(pare_held_out_compare(&h, m, &o, &err));
    assert_true(isnan(o.divergence)); /* there are no classes */
    return pare_output_cost(&o);
}

/* Few items of noise, so that a fit is arbitrary. */
static struct pare_data *noise(int64_t n, uint64_t seed)
{
    struct pare_input in = { .t = build_tensor(PARE_F32, 4, (int64_t[]){ n, C, SIDE, SIDE }) };
    struct pare_arrays a = { .n = n, .input = &in, .n_inputs = 1, .batch = 8 };
    struct pare_data *set;
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&in.t); i++)
        pare_f32_mut(&in.t)[i] = (float)(pare_rng_normal(&rng) * exp(2 * pare_rng_normal(&rng)));
    ok(pare_data_from_arrays(&a, &set, &err));
    return set;
}

/* The model is the best of those that were tried, and not worse than before. */
static void test_what_is_kept_is_never_worse(void **state)
{
    int kept[PARE_REPAIR_WAYS] = { 0 };

    (void)state;
    for (int i = 0; i < 24; i++) {
        struct pare_model *dense = network(), *m = network();
        struct pare_data *set = i % 3 ? noise(6 + 5 * i, (uint64_t)i + 1) : data;
        struct pare_repair_choice c = { .model = m,
                                        .dense = dense,
                                        .data = set,
                                        .fit = i % 4 != 3,
                                        .corrects = i % 5 != 4,
                                        .threads = 1 };
        double before, least = INFINITY;

        remove_channels(m, i % 3, i % 3 + 1 + i % 2);
        before = cost_of(dense, m, set);
        ok(pare_repair_choose(&c, &err));
        assert_true(cost_of(dense, m, set) <= before);
        for (int k = 0; k < PARE_REPAIR_WAYS; k++)
            if (!isnan(c.db[k]))
                least = fmin(least, pow(10, -c.db[k] / 10));
        assert_true(cost_of(dense, m, set) < 1.0011 * least);
        assert_true(isnan(c.db[PARE_WAY_REPAIR]) == !c.fit);
        kept[c.kept]++;
        if (set != data)
            pare_data_free(set);
        pare_model_free(m);
        pare_model_free(dense);
    }
    assert_true(kept[PARE_WAY_REPAIR] + kept[PARE_WAY_BOTH] > 2);
    assert_true(kept[PARE_WAY_NONE] > 0 && kept[PARE_WAY_STATISTICS] > 0);
}

/* Class scores: the divergence decides, which a common factor of the scores hardly changes. */
static void test_probabilities_are_compared_by_divergence(void **state)
{
    struct build b = { .opset = 13 };
    struct pare_held_out h = { .data = data, .threads = 1 };
    struct pare_output_distance off;
    struct pare_model *m;
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE });
    const char *y = build_node(&b, "Flatten", NAMES(in), NOTHING);

    (void)state;
    y = build_node(&b, "MatMul",
                   NAMES(y, random_weight(&b, 2, (int64_t[]){ C * SIDE * SIDE, 5 }, 10, 0)),
                   NOTHING);
    build_output(&b, build_node(&b, "Softmax", NAMES(y), at_int("axis", 1)));
    m = build_model(&b);
    h.dense = m;
    pare_held_out_divide(&h, 1024);
    assert_true(h.items == ITEMS / 5 && h.fitted == ITEMS - ITEMS / 5);
    ok(pare_held_out_compare(&h, m, &off, &err));
    assert_true(off.noise == 0 && off.divergence == 0 && pare_held_out_db(off.noise) == 200);
    pare_model_free(m);
}

/* The weights are as before if repair fails. */
static void test_failures_leave_the_model(void **state)
{
    struct pare_model *dense = network(), *m = network(), *same = network();
    int failures = 0;

    (void)state;
    remove_channels(m, 0, 1);
    remove_channels(same, 0, 1);
    for (int n = 1;; n += 1 + n / 6) {
        struct pare_repair_choice c = { .model = m,
                                        .dense = dense,
                                        .data = data,
                                        .fit = true,
                                        .corrects = true,
                                        .threads = 1 };
        bool reached;
        int rc;

        pare_oom_countdown = -n;
        rc = pare_repair_choose(&c, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        failures += rc != 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
        if (rc)
            assert_true(difference(same, m) == 0);
        if (!reached)
            break;
    }
    assert_true(failures > 20);
    pare_model_free(same);
    pare_model_free(m);
    pare_model_free(dense);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_other_weights_are_better),
        cmocka_unit_test(test_unchanged_inputs_give_the_weights),
        cmocka_unit_test(test_degenerate_statistics_keep_the_weights),
        TEST(test_outputs_are_closer_after_repair),
        TEST(test_nothing_removed_changes_nothing),
        TEST(test_zeros_stay),
        TEST(test_weights_that_are_left_are_fitted),
        TEST(test_failing_allocations),
        TEST(test_statistics_become_those_of_the_original),
        TEST(test_removed_channels_stay_removed),
        TEST(test_what_is_kept_is_never_worse),
        TEST(test_probabilities_are_compared_by_divergence),
        TEST(test_failures_leave_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
