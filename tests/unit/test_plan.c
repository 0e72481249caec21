/* test_plan.c - plans give the results of the reference kernels, on random networks.
 *
 * Environment: PARE_GRAPHS is how many, PARE_SEED the first seed; with PARE_SEED every seed is
 * printed before its turn.  PARE_DUMP names a file for the model of the last turn.
 */
#include "random_graph.h"

#include <stdio.h>

#include "plan/plan.h"
#include "tensor/compare.h"

enum { OUTPUTS = RG_VALUES + 2, KERNELS = 64 };

struct trial {
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
} seen;

static void failed(const struct trial *t, const char *how, const char *what)
{
    fail_msg("seed %llu, %s: %s", (unsigned long long)t->seed, how, what);
}

static void run(struct trial *t, struct pare_plan *p, int set, const char *how,
                struct pare_tensor *out)
{
    struct pare_err err;

    /* Nothing that an earlier run left may be read: a NaN would show. */
    memset(p->memory, 0xff, p->memory_bytes);
    if (pare_plan_execute(p, t->in[set], out, &err))
        failed(t, how, err.msg);
}

static void compare(const struct trial *t, const struct pare_tensor *got,
                    const struct pare_tensor *want, const char *how)
{
    struct pare_err err;

    for (int i = 0; i < t->n_out; i++) {
        double most = 0;

        for (int64_t k = 0; k < pare_numel(&want[i]); k++)
            most = fmax(most, fabs(pare_get(&want[i], k)));
        if (pare_tensor_compare(&got[i], &want[i],
                                (struct pare_tolerance){ 1e-4, 1e-4 * most + 1e-5 }, &err)) {
            char text[700];

            snprintf(text, sizeof(text), "output %d: %s", i, err.msg);
            failed(t, how, text);
        }
    }
}

static void note_plan(struct trial *t, const struct pare_plan *p, const char *how)
{
    double excess = (double)p->memory_bytes / ((double)p->needed_bytes + 1);
    char text[100];

    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; pare_kernels[k]; k++)
            if (p->step[i]->kernel == pare_kernels[k]) {
                t->uses[k] = true;
                seen.kernels[k]++;
            }
    seen.steps += p->n_steps;
    if (excess > seen.excess) {
        seen.excess = excess;
        seen.seed = t->seed;
    }
    if (excess > 1.2) {
        snprintf(text, sizeof(text), "%zu bytes where %zu are needed", p->memory_bytes,
                 p->needed_bytes);
        failed(t, how, text);
    }
}

/* Twice the first data, with the second in between. */
static void check_plan(struct trial *t, int threads, bool tune, const char *const *without)
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
        failed(t, how, err.msg);
    note_plan(t, p, how);
    run(t, p, 0, how, out);
    compare(t, out, t->want[0], how);
    for (int i = 0; i < t->n_out; i++)
        first[i] = build_copy(&out[i]);
    pare_oom_countdown = 1 << 30;
    run(t, p, 1, how, out);
    compare(t, out, t->want[1], how);
    run(t, p, 0, how, out);
    if (pare_oom_countdown != 1 << 30)
        failed(t, how, "asks for memory while it runs");
    pare_oom_countdown = 0;
    for (int i = 0; i < t->n_out; i++)
        if (pare_tensor_compare(&out[i], &first[i], (struct pare_tolerance){ 0, 0 }, &err))
            failed(t, how, "the same data gives other results");
    pare_plan_free(p);
}

static void reference(struct trial *t)
{
    struct pare_plan_opts o = { .reference = true };
    struct pare_tensor out[OUTPUTS];
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_make(t->model, &o, &p, &err))
        failed(t, "reference", err.msg);
    t->n_out = pare_model_outputs(t->model, &(const struct pare_io *){ NULL });
    for (int set = 0; set < 2; set++) {
        for (int i = 0; i < t->graph.n_in; i++) {
            t->in[set][i] = build_tensor(PARE_F32, t->graph.in[i].rank, t->graph.in[i].dim);
            rg_fill(&t->graph.r, &t->in[set][i], 1.5f);
        }
        run(t, p, set, "reference", out);
        for (int i = 0; i < t->n_out; i++)
            t->want[set][i] = build_copy(&out[i]);
    }
    pare_plan_free(p);
}

static void dump(const struct build *b, const char *path)
{
    struct bin bytes = build_bytes(b);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    fclose(f);
}

/* Without one of the kernels, and with no other than it. */
static void check_variants(struct trial *t, int kernels)
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
    static struct trial t;
    struct pare_mark m = pare_mark(pool);

    memset(&t, 0, sizeof(t));
    t.seed = seed;
    rg_make(&t.graph, seed);
    if (getenv("PARE_DUMP"))
        dump(&t.graph.b, getenv("PARE_DUMP"));
    t.model = build_model(&t.graph.b);
    reference(&t);
    check_plan(&t, 1, false, NULL);
    check_plan(&t, 2, false, NULL);
    check_plan(&t, 2, true, NULL);
    check_variants(&t, kernels);
    pare_model_free(t.model);
    pare_reset(pool, m);
}

static uint64_t setting(const char *name, uint64_t absent)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 10) : absent;
}

static void random_graphs(void **state)
{
    uint64_t first = setting("PARE_SEED", 1), count = setting("PARE_GRAPHS", 300);
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
    print_message("%d steps; at most %.2f times the memory that is needed (seed %llu)\n",
                  seen.steps, seen.excess, (unsigned long long)seen.seed);
    for (int i = 0; i < kernels; i++)
        print_message("%6d %s\n", seen.kernels[i], pare_kernels[i]->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_graphs, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
