/* bench_costs.c - how well a cost table predicts models that it was not fitted to.
 *
 *     bench_costs MODEL [ASSIGNMENTS [THREADS [SEED [FORMATS]]]]
 *
 * Defaults are 20, 1, 1, and both formats; FORMATS may be float32.
 *
 * Measures the cost table of the model, then builds models with random counts of all groups and
 * random formats, and measures each in alternation with the original.  Prints predicted and
 * measured parts of the original's latency; then the median and the largest relative difference.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "search/cost_table.h"
#include "search/model_race.h"

#define MOST 1000
#define SECONDS 0.8

struct task {
    struct pare_arena *a;
    struct pare_model *model;
    struct pare_cost_table *t;
    struct pare_rng rng;
    int threads;
    int64_t *count;
    enum pare_cost_format *format;
    double difference[MOST];
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void draw(struct task *k)
{
    struct pare_cost_table *t = k->t;
    int kind = (int)pare_rng_below(&k->rng, 3); /* float32, int8, each at random */

    for (int g = 0; g < t->n_groups; g++)
        k->count[g] = t->group[g].choice[pare_rng_below(&k->rng, (uint64_t)t->group[g].n_choices)];
    for (int l = 0; l < t->n_layers; l++) {
        bool int8 = t->layer[l].formats & 1u << PARE_COST_INT8;
        uint64_t coin = pare_rng_below(&k->rng, 2);

        k->format[l] = int8 && (kind == 1 || (kind == 2 && coin)) ? PARE_COST_INT8 : PARE_COST_F32;
    }
}

static int compare(struct task *k, int at, double dense, struct pare_err *err)
{
    struct pare_race r = { .batch = 1, .threads = k->threads, .seconds = SECONDS, .seed = 1 };
    struct pare_model *small;
    double predicted, measured;
    int rc, int8 = 0;

    draw(k);
    for (int l = 0; l < k->t->n_layers; l++)
        int8 += k->format[l] == PARE_COST_INT8;
    PARE_TRY(pare_cost_build(k->model, k->t, k->count, k->format, &small, err));
    rc = pare_race_run(k->model, small, &r, err);
    pare_model_free(small);
    if (rc)
        return rc;
    predicted = pare_cost_predict(k->t, k->count, k->format).us / dense;
    measured = r.us[1] / r.us[0];
    k->difference[at] = fabs(predicted / measured - 1);
    printf("%3d  %2d of %d layers int8  predicted %.3f  measured %.3f  %+.1f%%\n", at + 1, int8,
           k->t->n_layers, predicted, measured, 100 * (predicted / measured - 1));
    fflush(stdout);
    return 0;
}

static int run(struct task *k, const char *path, int n, unsigned formats, struct pare_err *err)
{
    struct pare_cost_opts o = { .threads = k->threads, .formats = formats };
    double dense;

    PARE_TRY(pare_model_load(path, &k->model, err));
    PARE_TRY(pare_cost_table_measure(k->model, &o, k->a, &k->t, err));
    k->count = pare_alloc(k->a, (size_t)k->t->n_groups + 1, sizeof(*k->count));
    k->format = pare_alloc(k->a, (size_t)k->t->n_layers + 1, sizeof(*k->format));
    if (!k->count || !k->format)
        return pare_no_memory(err, "for assignments");
    for (int g = 0; g < k->t->n_groups; g++)
        k->count[g] = k->t->group[g].full;
    dense = pare_cost_predict(k->t, k->count, NULL).us;
    for (int i = 0; i < n; i++)
        PARE_TRY(compare(k, i, dense, err));
    qsort(k->difference, (size_t)n, sizeof(double), by_size);
    printf("%d assignments: median %.1f%%, worst %.1f%%\n", n, 100 * k->difference[n / 2],
           100 * k->difference[n - 1]);
    return 0;
}

int main(int argc, char **argv)
{
    struct task k = { .a = pare_arena_new(1 << 16),
                      .threads = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1 };
    int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 20, rc;
    unsigned formats = argc > 5 && !strcmp(argv[5], "float32") ? 1u << PARE_COST_F32 : 0;
    struct pare_err err;

    if (argc < 2 || n < 1 || n > MOST || !k.a) {
        fprintf(stderr, "usage: bench_costs MODEL [ASSIGNMENTS [THREADS [SEED [FORMATS]]]]\n");
        return 2;
    }
    pare_rng_init(&k.rng, argc > 4 ? strtoull(argv[4], NULL, 10) : 1);
    rc = run(&k, argv[1], n, formats, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    pare_model_free(k.model);
    pare_arena_free(k.a);
    return rc ? 1 : 0;
}
