/* test_obs_trace.c - removal of weights and channels by optimal brain surgeon, by brute force. */
#include "prune_rig.h"

#include "base/rng.h"
#include "prune/obs_columns.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_equals_brute_force),
        cmocka_unit_test(test_trace_of_nothing_keeps_the_weights),
        cmocka_unit_test(test_trace_of_several_inverses),
        cmocka_unit_test(test_trace_loses_what_groups_may),
        cmocka_unit_test(test_channels_cost_what_least_squares_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
