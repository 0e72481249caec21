/* test_plan.c - plans give the results of the reference kernels, on random networks.
 *
 * Environment: PARE_GRAPHS is the number of networks, PARE_SEED the first seed; with PARE_SEED
 * every seed is printed before it runs.  PARE_DUMP names a file to which the last model is written.
 */
#include "random_graph.h"

#include <stdio.h>

#include "plan/plan.h"
#include "tensor/compare.h"

enum { OUTPUTS = RG_VALUES + 2, KERNELS = 64 };

struct network_case {
    uint64_t seed;
    struct rg graph;
    struct pare_model *model;
    int n_out;
    struct pare_tensor in[2][RG_INPUTS], want[2][OUTPUTS]; /* two sets of data */
    bool uses[KERNELS];                                    /* kernels of the plans so far */
};

static struct {
    double excess; /* the largest memory_bytes / needed_bytes */
    uint64_t seed;
    int steps, kernels[KERNELS];
} totals;

static void fail_case(const struct network_case *t, const char *how, const char *what)
{
    fail_msg("seed %llu, %s: %s", (unsigned long long)t->seed, how, what);
}

static void run_plan(struct network_case *t, struct pare_plan *p, int set, const char *how,
                     struct pare_tensor *out)
{
    struct pare_err err;

    /* Fill the memory with NaN, which shows if a run reads results of an earlier run. */
    memset(p->memory, 0xff, p->memory_bytes);
    if (pare_plan_execute(p, t->in[set], out, &err))
        fail_case(t, how, err.msg);
}

static void expect_close(const struct network_case *t, const struct pare_tensor *got,
                         const struct pare_tensor *want, const char *how)
{
    struct pare_err err;

    for (int i = 0; i < t->n_out; i++) {
        double largest = 0;

        for (int64_t k = 0; k < pare_numel(&want[i]); k++)
            largest = fmax(largest, fabs(pare_get(&want[i], k)));
        if (pare_tensor_compare(&got[i], &want[i],
                                (struct pare_tolerance){ 1e-4, 1e-4 * largest + 1e-5 }, &err)) {
            char text[700];

            snprintf(text, sizeof(text), "output %d: %s", i, err.msg);
            fail_case(t, how, text);
        }
    }
}

static void count_plan(struct network_case *t, const struct pare_plan *p, const char *how)
{
    double excess = (double)p->memory_bytes / ((double)p->needed_bytes + 1);
    char text[100];

    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; pare_kernels[k]; k++)
            if (p->step[i]->kernel == pare_kernels[k]) {
                t->uses[k] = true;
                totals.kernels[k]++;
            }
    totals.steps += p->n_steps;
    if (excess > totals.excess) {
        totals.excess = excess;
        totals.seed = t->seed;
    }
    if (excess > 1.2) {
        snprintf(text, sizeof(text), "uses %zu bytes, needs %zu", p->memory_bytes, p->needed_bytes);
        fail_case(t, how, text);
    }
}

/* Runs the first data, the second, and the first again. */
static void check_plan(struct network_case *t, int threads, bool tune, const char *const *without)
{
    struct pare_plan_opts o = { .threads = threads, .tune = tune };
    struct pare_tensor out[OUTPUTS], first[OUTPUTS];
    struct pare_plan *p;
    struct pare_err err;
    char how[96];

    snprintf(how, sizeof(how), "%d thread%s%s%s%s%s", threads, threads > 1 ? "s" : "",
             tune ? ", tuned" : "", without ? " without " : "", without ? without[0] : "",
             without && without[1] ? " and others" : "");
    if (pare_plan_build(t->model, &(struct pare_plan_build){ .opts = &o, .without = without }, &p,
                        &err))
        fail_case(t, how, err.msg);
    count_plan(t, p, how);
    run_plan(t, p, 0, how, out);
    expect_close(t, out, t->want[0], how);
    for (int i = 0; i < t->n_out; i++)
        first[i] = build_copy(&out[i]);
    pare_oom_countdown = 1 << 30;
    run_plan(t, p, 1, how, out);
    expect_close(t, out, t->want[1], how);
    run_plan(t, p, 0, how, out);
    if (pare_oom_countdown != 1 << 30)
        fail_case(t, how, "allocates memory while it runs");
    pare_oom_countdown = 0;
    for (int i = 0; i < t->n_out; i++)
        if (pare_tensor_compare(&out[i], &first[i], (struct pare_tolerance){ 0, 0 }, &err))
            fail_case(t, how, "the same data gives different results");
    pare_plan_free(p);
}

static void run_reference(struct network_case *t)
{
    struct pare_plan_opts o = { .reference = true };
    struct pare_tensor out[OUTPUTS];
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_make(t->model, &o, &p, &err))
        fail_case(t, "reference", err.msg);
    t->n_out = pare_model_outputs(t->model, &(const struct pare_io *){ NULL });
    for (int set = 0; set < 2; set++) {
        for (int i = 0; i < t->graph.n_in; i++) {
            t->in[set][i] = build_tensor(PARE_F32, t->graph.in[i].rank, t->graph.in[i].dim);
            rg_fill(&t->graph.r, &t->in[set][i], 1.5f);
        }
        run_plan(t, p, set, "reference", out);
        for (int i = 0; i < t->n_out; i++)
            t->want[set][i] = build_copy(&out[i]);
    }
    pare_plan_free(p);
}

static void write_model(const struct build *b, const char *path)
{
    struct bin bytes = build_bytes(b);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    fclose(f);
}

/* Plans without one of the kernels, and with only that kernel. */
static void check_variants(struct network_case *t, int kernels)
{
    const char *without[KERNELS + 1];
    int n = 0, one = 0, left = 0;

    for (int k = 0; k < kernels; k++)
        n += t->uses[k];
    if (!n)
        return;
    for (int skip = (int)(t->seed % (uint64_t)n); !t->uses[one] || skip > 0; one++)
        skip -= t->uses[one];
    without[0] = pare_kernels[one]->name;
    without[1] = NULL;
    check_plan(t, 1, false, without);
    for (int k = 0; k < kernels; k++)
        if (k != one)
            without[left++] = pare_kernels[k]->name;
    without[left] = NULL;
    check_plan(t, 1, false, without);
}

static void check_graph(uint64_t seed, int kernels)
{
    static struct network_case t;
    struct pare_mark m = pare_mark(pool);

    memset(&t, 0, sizeof(t));
    t.seed = seed;
    rg_make(&t.graph, seed);
    if (getenv("PARE_DUMP"))
        write_model(&t.graph.b, getenv("PARE_DUMP"));
    t.model = build_model(&t.graph.b);
    run_reference(&t);
    check_plan(&t, 1, false, NULL);
    check_plan(&t, 2, false, NULL);
    check_plan(&t, 2, true, NULL);
    check_variants(&t, kernels);
    pare_model_free(t.model);
    pare_reset(pool, m);
}

static uint64_t env_number(const char *name, uint64_t absent)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 10) : absent;
}

/* Kernels of float32 inference, which 300 random networks use; sparse weights, integers, attention
 * and training have tests of their own. */
static bool is_expected(const char *kernel)
{
    static const char *const names[] = {
        "reshape_view",  "conv_winograd",   "conv_1x1_packed", "conv_depthwise",
        "conv_taps",     "conv_onednn",     "conv_gemm",       "linear_packed",
        "linear_onednn", "linear_gemm",     "matmul_gemm",     "norm_rows",
        "softmax_rows",  "transpose_tiles", "concat_copy",     "elementwise_chain",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!strcmp(kernel, names[i]))
            return true;
    return false;
}

static void test_random_networks(void **state)
{
    uint64_t first = env_number("PARE_SEED", 1), count = env_number("PARE_GRAPHS", 300);
    int kernels = 0;

    (void)state;
    while (pare_kernels[kernels])
        kernels++;
    assert_true(kernels < KERNELS);
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (getenv("PARE_SEED"))
            fprintf(stderr, "%llu\n", (unsigned long long)seed);
        check_graph(seed, kernels);
    }
    print_message("%d steps; at most %.2f times the needed memory (seed %llu)\n", totals.steps,
                  totals.excess, (unsigned long long)totals.seed);
    for (int i = 0; i < kernels; i++) {
        print_message("%6d %s\n", totals.kernels[i], pare_kernels[i]->name);
        if (count >= 300 && is_expected(pare_kernels[i]->name) && !totals.kernels[i])
            fail_msg("no network uses the kernel %s", pare_kernels[i]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_networks, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
