/* test_obs.c - pruners by second moments of inputs: the order of removal against brute force, exact
 * counts and patterns, errors below those of magnitude, degenerate inputs, failing allocations. */
#include "make_model.h"
#include "prune_rig.h"

#include "data/data.h"
#include "plan/plan.h"
#include "prune/obs_columns.h"
#include "prune/obs_curves.h"
#include "prune/obs_trace.h"

/* ---- traces against brute force -------------------------------------------------------------- */

enum { K = 7, ROWS = 2 };

static double gram[K * K], inverse[K * K], weight[ROWS * K];

/* x = inverse(a), n by n, by elimination with pivots. */
static void invert(const double *a, int n, double *x)
{
    double m[K][2 * K] = { { 0 } };

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            m[i][j] = a[i * n + j];
            m[i][n + j] = i == j;
        }
    for (int c = 0; c < n; c++) {
        int p = c;

        for (int i = c; i < n; i++)
            p = fabs(m[i][c]) > fabs(m[p][c]) ? i : p;
        for (int j = 0; j < 2 * n; j++) {
            double v = m[c][j];

            m[c][j] = m[p][j];
            m[p][j] = v;
        }
        for (int j = 2 * n - 1; j >= c; j--)
            m[c][j] /= m[c][c];
        for (int i = 0; i < n; i++)
            for (int j = 2 * n - 1; j >= c && i != c; j--)
                m[i][j] -= m[i][c] * m[c][j];
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x[i * n + j] = m[i][n + j];
}

static void make_gram(uint64_t seed)
{
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    memset(gram, 0, sizeof(gram));
    for (int n = 0; n < 40; n++) {
        double x[K], common = pare_rng_normal(&rng);

        for (int i = 0; i < K; i++)
            x[i] = common * (1 + i % 3) + pare_rng_normal(&rng);
        for (int i = 0; i < K * K; i++)
            gram[i] += x[i / K] * x[i % K] / 40;
    }
    for (int i = 0; i < ROWS * K; i++)
        weight[i] = pare_rng_normal(&rng);
    invert(gram, K, inverse);
}

/* The least error of a row that uses only the columns in `keep`, and the weights that have it. */
static double best_row(const double *w, const bool *keep, double *to)
{
    double g[K * K] = { 0 }, x[K * K], right[K], error = 0;
    int at[K], n = 0;

    for (int i = 0; i < K; i++)
        if (keep[i])
            at[n++] = i;
    for (int i = 0; i < n; i++) {
        right[i] = 0;
        for (int j = 0; j < n; j++)
            g[i * n + j] = gram[at[i] * K + at[j]];
        for (int j = 0; j < K; j++)
            right[i] += w[j] * gram[j * K + at[i]];
    }
    invert(g, n, x);
    memset(to, 0, K * sizeof(*to));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            to[at[i]] += x[i * n + j] * right[j];
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++)
            error += (w[i] - to[i]) * gram[i * K + j] * (w[j] - to[j]);
    return error;
}

/* Greedy removal by trying every column. */
static void brute_force(int rows, int steps, int *order, double *fitted, double *error)
{
    bool keep[K];
    double now = 0;

    for (int i = 0; i < K; i++)
        keep[i] = true;
    memcpy(fitted, weight, (size_t)(rows * K) * sizeof(*fitted));
    for (int s = 0; s < steps; s++) {
        double least = INFINITY, try[ROWS * K];
        int best = -1;

        for (int c = 0; c < K; c++) {
            double sum = 0;

            if (!keep[c])
                continue;
            keep[c] = false;
            for (int r = 0; r < rows; r++)
                sum += best_row(weight + r * K, keep, try + r * K);
            keep[c] = true;
            if (sum < least) {
                least = sum;
                best = c;
            }
        }
        keep[best] = false;
        order[s] = best;
        error[s] = least - now;
        now = least;
        for (int r = 0; r < rows; r++)
            best_row(weight + r * K, keep, fitted + r * K);
    }
}

static void test_trace_equals_brute_force(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (int rows = 1; rows <= ROWS; rows++)
            for (int steps = 0; steps < K; steps++) {
                double cost[K], fitted[ROWS * K], want[ROWS * K], error[K] = { 0 }, room[500];
                struct pare_obs_trace t = { .parts = 1,
                                            .rows = rows,
                                            .k = K,
                                            .w = weight,
                                            .inverse = inverse,
                                            .cost = cost,
                                            .fitted = fitted,
                                            .steps = steps };
                int order[K];

                make_gram(seed);
                assert_true(pare_obs_trace_room(&t) <= 500);
                pare_obs_trace(&t, room);
                brute_force(rows, steps, order, want, error);
                for (int i = 0; i < steps; i++) { /* costs do not fall */
                    error[i] = i ? fmax(error[i], error[i - 1]) : error[i];
                    expect_near(cost[order[i]], error[i], 1e-5 * (1 + error[i]));
                }
                for (int i = 0; i < rows * K; i++)
                    expect_near(fitted[i], want[i], 1e-7);
            }
}

/* Keeping everything returns the weights bit for bit. */
static void test_trace_of_nothing_keeps_the_weights(void **state)
{
    double cost[K], fitted[ROWS * K], room[500];
    struct pare_obs_trace t = { .parts = 1, .rows = ROWS, .k = K, .w = weight, .inverse = inverse };

    (void)state;
    make_gram(3);
    t.cost = cost, t.fitted = fitted;
    pare_obs_trace(&t, room);
    assert_memory_equal(fitted, weight, sizeof(weight));
}

/* Rows of two groups, each with its inverse, cost what they cost together. */
static void test_trace_of_several_inverses(void **state)
{
    double cost[2][K], room[500], two[2 * K * K];
    struct pare_obs_trace t = { .parts = 1, .rows = 2, .k = K, .inverse = inverse, .steps = -1 };

    (void)state;
    make_gram(4);
    memcpy(two, inverse, sizeof(inverse));
    memcpy(two + K * K, inverse, sizeof(inverse));
    t.w = weight, t.cost = cost[0];
    pare_obs_trace(&t, room);
    t.parts = 2;
    t.rows = 1;
    t.inverse = two;
    t.cost = cost[1];
    pare_obs_trace(&t, room);
    for (int i = 0; i < K; i++)
        expect_near(cost[1][i], cost[0][i], 1e-12 * cost[0][i]);
}

static void test_trace_loses_what_groups_may(void **state)
{
    static const int32_t group[K] = { 5, 5, 5, 5, 6, 6, 6 }, most[7] = { 0, 0, 0, 0, 0, 2, 1 };
    double cost[K], room[500];
    struct pare_obs_trace t = { .parts = 1,
                                .rows = ROWS,
                                .k = K,
                                .w = weight,
                                .inverse = inverse,
                                .group = group,
                                .most = most,
                                .first = 5,
                                .cost = cost,
                                .steps = -1 };
    int lost[2] = { 0, 0 };

    (void)state;
    make_gram(5);
    pare_obs_trace(&t, room);
    for (int i = 0; i < K; i++)
        lost[group[i] - 5] += cost[i] < INFINITY;
    assert_true(lost[0] == 2 && lost[1] == 1);
}

/* Channels of two columns and one of one: the error of every count is that of least squares. */
static void test_channels_cost_what_least_squares_says(void **state)
{
    static const int64_t start[] = { 0, 2, 4, 6, 7 }, column[] = { 0, 1, 2, 3, 4, 5, 6 };

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct pare_arena *a = pare_arena_new(1 << 12);
        double w[ROWS * K], h[K * K], error[5], sum;
        struct pare_obs_columns m = { ROWS, K, w, h, start, column, 2 };
        int64_t order[4];
        struct pare_obs_removal r = { &m, 1, 4, order, error };
        bool keep[K] = { true, true, true, true, true, true, true };

        make_gram(seed);
        memcpy(w, weight, sizeof(w));
        memcpy(h, inverse, sizeof(h));
        ok(pare_obs_remove_columns(&r, a, &rig_err));
        for (int i = 0; i < 4; i++) {
            double least = INFINITY, room[K];

            for (int g = 0; g < 4; g++) { /* no other channel is cheaper */
                if (!keep[start[g]])
                    continue;
                memset(keep + start[g], 0, (size_t)(start[g + 1] - start[g]));
                sum = best_row(weight, keep, room) + best_row(weight + K, keep, room);
                least = fmin(least, sum);
                memset(keep + start[g], 1, (size_t)(start[g + 1] - start[g]));
            }
            memset(keep + start[order[i]], 0, (size_t)(start[order[i] + 1] - start[order[i]]));
            sum = best_row(weight, keep, room) + best_row(weight + K, keep, room);
            expect_near(sum, least, 1e-7 * (1 + least));
            assert_true(error[i + 1] >= sum - 1e-6 * (1 + sum)); /* steps never fall */
            if (i == 0)
                expect_near(error[1], sum, 1e-7 * (1 + sum));
        }
        pare_arena_free(a);
    }
}

/* ---- layers ---------------------------------------------------------------------------------- */

enum { ITEMS = 96, C = 8, SIDE = 6 };

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
    for (int64_t i = 0; i < pare_numel(&items); i++) /* channel 5 is always 0 */
        pare_f32_mut(&items)[i] = i / (SIDE * SIDE) % C == 5
                                      ? 0
                                      : (float)pare_rng_normal(&rng) * 0.5f + 0.3f +
                                            sinf((float)(i % (SIDE * SIDE)) +
                                                 (float)(i / (C * SIDE * SIDE)));
    in.t = items;
    ok(pare_data_from_arrays(&a, &data, &rig_err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_data_free(data);
    pare_arena_free(pool);
    return 0;
}

static const char *random_weight(struct build *b, int rank, const int64_t *dim, uint64_t seed)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = 0.3f * (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* One layer of each kind, whose inputs no pruning changes. */
enum kind { CONV, GROUPED, DEPTHWISE, CONV1, GEMM, GEMM_TRANSPOSED, MATMUL, KINDS };
static const char *const type_of[KINDS] = { "Conv2d", "Conv2d", "Conv2d", "Conv1d",
                                            "Linear", "Linear", "Linear" };

static struct pare_model *one_layer(enum kind kind)
{
    static const int64_t dim[][4] = { { 8, 8, 3, 3 }, { 8, 4, 3, 3 }, { 8, 1, 3, 3 }, { 8, 8, 5 },
                                      { 288, 12 },    { 12, 288 },    { 288, 12 } };
    static const int64_t group[] = { 1, 2, 8, 1 };
    const int rank = kind < CONV1 ? 4 : kind == CONV1 ? 3 : 2;
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE });
    const char *w, *y, *bias;

    w = random_weight(&b, rank, dim[kind], 10 + (uint64_t)kind);
    bias = random_weight(&b, 1, (int64_t[]){ kind < GEMM ? 8 : 12 }, 30);
    if (kind == CONV1)
        in = build_node(&b, "Reshape",
                        NAMES(in, build_ints(&b, 3, (int64_t[]){ -1, C, SIDE * SIDE })), NOTHING);
    if (kind >= GEMM)
        in = build_node(&b, "Flatten", NAMES(in), NOTHING);
    if (kind == MATMUL)
        y = build_node(&b, "MatMul", NAMES(in, w), NOTHING);
    else if (kind >= GEMM)
        y = build_node(&b, "Gemm", NAMES(in, w, bias), at_int("transB", kind == GEMM_TRANSPOSED));
    else
        y = build_node(&b, "Conv", NAMES(in, w, bias), at_int("group", group[kind]));
    build_output(&b, y);
    return build_model(&b);
}

/* Mean squared difference of the outputs for all items. */
static double difference(struct pare_model *a, struct pare_model *b)
{
    struct pare_model *m[2] = { a, b };
    struct pare_plan_opts o = { .in = &items, .batch = ITEMS, .threads = 1 };
    struct pare_tensor y[2];
    struct pare_plan *p[2];
    double sum = 0;

    for (int i = 0; i < 2; i++) {
        ok(pare_plan_make(m[i], &o, &p[i], &rig_err));
        ok(pare_plan_execute(p[i], &items, &y[i], &rig_err));
    }
    for (int64_t i = 0, n = pare_numel(&y[0]); i < n; i++)
        sum += pow((double)pare_f32(&y[0])[i] - (double)pare_f32(&y[1])[i], 2) / (double)n;
    pare_plan_free(p[0]);
    pare_plan_free(p[1]);
    return sum;
}

static struct pare_compression *prune(struct pare_model *m, const char *pruner, const char *keys,
                                      const char *type, int threads)
{
    struct pare_compression_opts o = { .pruner = pruner, .threads = threads };
    struct pare_compression *c;
    char config[200];

    snprintf(config, sizeof(config), "[{\"op_types\": [\"%s\"], %s}]", type, keys);
    o.config = config;
    ok(pare_compression_new(m, &o, &c, &rig_err));
    ok(pare_compression_use_data(c, data, 8, &rig_err));
    ok(pare_compression_compress(c, &rig_err));
    return c;
}

/* The error of the outputs after pruning; *zeros: removed weights. */
static double error_of(enum kind kind, const char *pruner, const char *keys, int64_t *zeros)
{
    struct pare_model *dense = one_layer(kind), *m = one_layer(kind);
    struct pare_compression *c = prune(m, pruner, keys, type_of[kind], 2);
    double error = difference(dense, m);

    *zeros = rig_removed(pare_compression_layer(c, 0));
    pare_compression_free(c);
    pare_model_free(m);
    pare_model_free(dense);
    return error;
}

static void test_errors_are_below_those_of_magnitude(void **state)
{
    static const char *const keys[] = {
        "\"sparsity\": 0.5, \"granularity\": \"element\"",
        "\"sparsity\": 0.75, \"granularity\": \"element\"",
        "\"sparsity\": 0.5, \"granularity\": \"block_4x1\"",
        "\"pattern\": \"2:4\"",
    };

    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int k = 0; k < 4; k++) {
            int64_t zeros[3];
            double level = error_of(kind, "level", keys[k], &zeros[0]), other;

            other = error_of(kind, "obs", keys[k], &zeros[1]);
            assert_true(other <= level * (1 + 1e-6) + 1e-12);
            assert_int_equal(zeros[1], zeros[0]);
            if (kind == DEPTHWISE && k == 2)
                continue; /* blocks overlap groups */
            other = error_of(kind, "sparsegpt", keys[k], &zeros[2]);
            assert_true(other <= level * (1 + 1e-6) + 1e-12);
            assert_true(zeros[2] <= zeros[0] && zeros[2] >= zeros[0] - 4 * (int64_t)C * 3);
        }
}

/* Wanda keeps as many weights in every row. */
static void test_wanda_removes_the_same_part_of_each_output(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct pare_model *m = one_layer(kind);
        struct pare_compression *c = prune(m, "wanda", "\"sparsity\": 0.5", type_of[kind], 1);
        struct pare_layer *l = pare_compression_layer(c, 0);
        const struct pare_tensor *mask = pare_layer_mask(l);
        int out = pare_layer_out_axis(l);
        int64_t rows = mask->dim[out], k = pare_numel(mask) / rows;

        for (int64_t r = 0; r < rows; r++) {
            int64_t gone = 0;

            for (int64_t i = 0; i < k; i++)
                gone += !((const uint8_t *)mask->data)[out ? i * rows + r : r * k + i];
            assert_int_equal(gone, k / 2);
        }
        pare_compression_free(c);
        pare_model_free(m);
    }
}

/* Of every 4 consecutive input channels, 2 are left. */
static void test_patterns_are_exact(void **state)
{
    static const char *const pruners[] = { "level", "wanda", "sparsegpt", "obs" };

    (void)state;
    for (int p = 0; p < 4; p++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct pare_model *m = one_layer(kind);
            struct pare_compression *c = prune(m, pruners[p], "\"pattern\": \"2:4\"", type_of[kind],
                                               1);
            struct pare_layer *l = pare_compression_layer(c, 0);
            const struct pare_tensor *mask = pare_layer_mask(l);
            int axis = kind == DEPTHWISE ? 3 : pare_layer_in_axis(l);
            int64_t inner = 1, len = mask->dim[axis];

            for (int i = axis + 1; i < mask->rank; i++)
                inner *= mask->dim[i];
            for (int64_t at = 0; at < pare_numel(mask); at++) {
                int64_t left = 0, most = len < 4 ? len : 4;

                if (at / inner % len % 4)
                    continue;
                for (int64_t i = 0; i < most; i++)
                    left += ((const uint8_t *)mask->data)[at + i * inner];
                assert_int_equal(left, 2);
            }
            pare_compression_free(c);
            pare_model_free(m);
        }
}

static void test_keeping_everything_changes_nothing(void **state)
{
    static const char *const pruners[] = { "wanda", "sparsegpt", "obs" };

    (void)state;
    for (int p = 0; p < 3; p++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct pare_model *dense = one_layer(kind), *m = one_layer(kind);
            struct pare_compression *c = prune(m, pruners[p],
                                               "\"sparsity\": 0, \"granularity\": \"element\"",
                                               type_of[kind], 1);
            const struct pare_tensor *w = pare_layer_weight(pare_compression_layer(c, 0));
            struct pare_value *v = pare_compression_layer(c, 0)->weight;
            struct pare_value *was = pare_graph_find(dense->graph, v->name);

            ok(pare_model_own(dense, was, &rig_err));
            assert_memory_equal(v->t.data, was->t.data, (size_t)pare_numel(w) * sizeof(float));
            pare_compression_free(c);
            pare_model_free(m);
            pare_model_free(dense);
        }
}

/* ---- networks -------------------------------------------------------------------------------- */

/* A residual block, a depthwise layer between pointwise ones, normalization, a linear layer. */
static struct pare_model *network(void)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE }), *x, *y;
    struct bin pads = at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 });

    x = build_node(&b, "Conv", NAMES(in, random_weight(&b, 4, (int64_t[]){ 8, C, 3, 3 }, 1)), pads);
    x = build_node(&b, "Relu", NAMES(x), NOTHING);
    y = build_node(&b, "Conv", NAMES(x, random_weight(&b, 4, (int64_t[]){ 12, 8, 3, 3 }, 2)), pads);
    y = build_node(&b, "Relu", NAMES(y), NOTHING);
    y = build_node(&b, "Conv", NAMES(y, random_weight(&b, 4, (int64_t[]){ 8, 12, 3, 3 }, 3)), pads);
    x = build_node(&b, "Relu", NAMES(build_node(&b, "Add", NAMES(x, y), NOTHING)), NOTHING);
    x = build_node(&b, "Conv", NAMES(x, random_weight(&b, 4, (int64_t[]){ 8, 1, 3, 3 }, 4)),
                   CAT(at_int("group", 8), pads));
    x = build_node(&b, "Conv", NAMES(x, random_weight(&b, 4, (int64_t[]){ 10, 8, 1, 1 }, 5)),
                   NOTHING);
    x = build_node(&b, "Flatten", NAMES(build_node(&b, "Relu", NAMES(x), NOTHING)), NOTHING);
    build_output(&b, build_node(&b, "Gemm",
                                NAMES(x, random_weight(&b, 2, (int64_t[]){ 360, 5 }, 6)), NOTHING));
    return build_model(&b);
}

static struct pare_compression *open_channels(struct pare_model *m, int threads)
{
    struct pare_compression_opts o = { .pruner = "obs",
                                       .threads = threads,
                                       .config = "[{\"op_types\": [\"Conv2d\"], "
                                                 "\"sparsity\": 0.4}]",
                                       .settings = "mode=global_aware" };
    struct pare_compression *c;

    ok(pare_compression_new(m, &o, &c, &rig_err));
    ok(pare_compression_use_data(c, data, 8, &rig_err));
    return c;
}

/* The order is a permutation, errors never fall, and every set has its readers. */
static void test_curves_of_channels(void **state)
{
    struct pare_model *m = network();
    struct pare_compression *c = open_channels(m, 2);
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_obs_options o = { { 64, -1 }, 640, "layer", "macs" };
    struct pare_obs_curves v;

    (void)state;
    ok(pare_obs_curves(c, &o, a, &v, &rig_err));
    assert_true(v.n == 3); /* the residual sum with the depthwise layer, inside, before the Gemm */
    for (int i = 0; i < v.n; i++) {
        const struct pare_obs_curve *e = &v.list[i];
        int64_t sum = 0;

        assert_true(e->readers > 0 && e->params > 0 && e->macs > 0);
        assert_true(e->error[0] == 0 && e->error[e->set->n] > 0);
        for (int64_t k = 0; k < e->set->n; k++) {
            sum += e->order[k];
            assert_true(e->error[k + 1] >= e->error[k]);
        }
        assert_int_equal(sum, e->set->n * (e->set->n - 1) / 2);
    }
    pare_arena_free(a);
    pare_compression_free(c);
    pare_model_free(m);
}

static void test_channels_do_not_depend_on_threads(void **state)
{
    float first[12 * 8 * 9];

    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        struct pare_model *m = network();
        struct pare_compression *c = open_channels(m, threads);
        const struct pare_tensor *w;

        ok(pare_compression_compress(c, &rig_err));
        w = &pare_compression_layer(c, 1)->weight->t;
        assert_true(pare_compression_zeros(c) > 0 && pare_numel(w) == 12 * 8 * 9);
        if (threads > 1)
            assert_memory_equal(w->data, first, sizeof(first));
        memcpy(first, w->data, sizeof(first));
        pare_compression_free(c);
        pare_model_free(m);
    }
}

/* ---- what cannot be pruned ------------------------------------------------------------------- */

static void expect_failure(const char *pruner, const char *config, bool with_data, const char *text)
{
    struct pare_model *m = network();
    struct pare_compression_opts o = { .pruner = pruner, .config = config };
    struct pare_compression *c = NULL;
    int rc = pare_compression_new(m, &o, &c, &rig_err);

    if (!rc && with_data)
        ok(pare_compression_use_data(c, data, 8, &rig_err));
    if (!rc)
        rc = pare_compression_compress(c, &rig_err);
    if (!rc || !strstr(rig_err.msg, text))
        fail_msg("%s: '%s', expected '%s'", pruner, rc ? rig_err.msg : "no error", text);
    pare_compression_free(c);
    pare_model_free(m);
}

static void test_errors(void **state)
{
    static const char *const pruners[] = { "wanda", "sparsegpt", "obs" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        expect_failure(pruners[i], "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]", false,
                       "needs data");
        expect_failure(pruners[i], "[{\"op_types\": [\"Conv2d\"], \"pattern\": \"4:2\"}]", true,
                       "expected n:m");
        expect_failure(pruners[i],
                       "[{\"op_types\": [\"Conv2d\"], \"pattern\": \"2:4\", \"sparsity\": 0.7}]",
                       true, "specify one of them");
    }
    expect_failure("sparsegpt",
                   "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5, \"granularity\": "
                   "\"out_channel\"}]",
                   true, "use granularity element");
    expect_failure("obs",
                   "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5, \"granularity\": "
                   "\"in_channel\"}]",
                   true, "use granularity element");
}

/* Two nodes with one weight: the layer is left alone, by name. */
static void test_tied_layers_are_refused(void **state)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE });
    const char *w = random_weight(&b, 4, (int64_t[]){ C, C, 1, 1 }, 1), *x;
    struct pare_compression_opts o = { .pruner = "wanda" };
    struct pare_compression *c = NULL;
    struct pare_model *m;

    (void)state;
    x = build_node(&b, "Relu", NAMES(build_node(&b, "Conv", NAMES(in, w), NOTHING)), NOTHING);
    build_output(&b, build_node(&b, "Conv", NAMES(x, w), NOTHING));
    m = build_model(&b);
    o.config = "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]";
    assert_true(pare_compression_new(m, &o, &c, &rig_err) != 0);
    assert_non_null(strstr(rig_err.msg, "several nodes use its weight"));
    pare_model_free(m);
}

static void test_failing_allocations(void **state)
{
    static const char *const pruners[] = { "wanda", "sparsegpt", "obs", "obs" };
    static const char *const keys[] = { "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]",
                                        "[{\"op_types\": [\"Conv2d\"], \"pattern\": \"2:4\"}]" };

    (void)state;
    for (int p = 0; p < 4; p++) {
        int failures = 0;

        for (int n = 1;; n += 1 + n / 6) {
            struct pare_model *m = network();
            struct pare_compression *c;
            struct pare_compression_opts o = { .pruner = pruners[p],
                                               .threads = 1,
                                               .settings = "items=16",
                                               .config = keys[p == 2] };
            bool reached;
            int rc;

            ok(pare_compression_new(m, &o, &c, &rig_err));
            ok(pare_compression_use_data(c, data, 8, &rig_err));
            pare_oom_countdown = -n;
            rc = pare_compression_compress(c, &rig_err);
            reached = pare_oom_countdown == 0;
            pare_oom_countdown = 0;
            failures += rc != 0;
            if (rc && rc != PARE_ENOMEM)
                fail_msg("%s, allocation %d: code %d, '%s'", pruners[p], n, rc, rig_err.msg);
            pare_compression_free(c);
            pare_model_free(m);
            if (!reached)
                break;
        }
        assert_true(failures > 10);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_equals_brute_force),
        cmocka_unit_test(test_trace_of_nothing_keeps_the_weights),
        cmocka_unit_test(test_trace_of_several_inverses),
        cmocka_unit_test(test_trace_loses_what_groups_may),
        cmocka_unit_test(test_channels_cost_what_least_squares_says),
        TEST(test_errors_are_below_those_of_magnitude),
        TEST(test_wanda_removes_the_same_part_of_each_output),
        TEST(test_patterns_are_exact),
        TEST(test_keeping_everything_changes_nothing),
        TEST(test_curves_of_channels),
        TEST(test_channels_do_not_depend_on_threads),
        TEST(test_errors),
        TEST(test_tied_layers_are_refused),
        TEST(test_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
