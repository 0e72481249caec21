/* bench_calibrate.c - one measurement for calibrate.py: calibration, or only inference.
 *
 *     bench_calibrate MODEL DATA BATCH STEPS THREADS OBSERVER
 *
 * OBSERVER is one of ptq's, or "none" to only run the model.
 * Prints wall seconds, processor seconds and the peak resident memory in kilobytes.  The time
 * covers planning and running the batches, and with an observer also folding normalizations,
 * computing all scales and quantizing the weights.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "base/clock.h"
#include "quant/presets.h"
#include "compress/registry.h"
#include "compress/compression.h"
#include "compress/wrap.h"
#include "data/data.h"
#include "onnx/fold_norm.h"
#include "plan/plan.h"

struct task {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_data *data;
    int64_t batch, steps;
    int threads;
    const char *observer;
};

static double processor(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec +
           (double)u.ru_stime.tv_sec + 1e-6 * (double)u.ru_stime.tv_usec;
}

static int only_run(const struct task *t, struct pare_err *err)
{
    struct pare_loader_opts lo = { .train = true, .batch = t->batch, .seed = 1 };
    struct pare_loader *loader;
    struct pare_plan *plan = NULL;
    struct pare_tensor out[16];
    const struct pare_io *io;

    if (pare_model_inputs(t->model, &io) > 0)
        lo.input = &io[0];
    PARE_TRY(pare_loader_new(t->data, &lo, &loader, err));
    for (int64_t i = 0; i < t->steps;) {
        const struct pare_batch *b;
        struct pare_plan_opts o = { .threads = t->threads };

        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b)
            continue;
        o.in = &b->x;
        if (!plan)
            PARE_TRY(pare_plan_make(t->model, &o, &plan, err));
        PARE_TRY(pare_plan_execute(plan, &b->x, out, err));
        i++;
    }
    pare_plan_free(plan);
    pare_loader_free(loader);
    return 0;
}

static int calibrate(const struct task *t, struct pare_err *err)
{
    char settings[96];
    struct pare_compression_opts o = { .quantizer = "ptq", .threads = t->threads };
    struct pare_model *folded, *model;
    struct pare_rules rules;
    struct pare_graph *g;
    struct pare_compression *run;
    const char *usual;
    int n;

    snprintf(settings, sizeof(settings), "observer=%s calibration_steps=%lld", t->observer,
             (long long)t->steps);
    PARE_TRY(pare_model_fold_norm(t->model, &folded, &n, err));
    model = folded ? folded : t->model;
    PARE_TRY(pare_model_shapes(model, t->arena, &g, err));
    PARE_TRY(pare_preset("int8", g, t->arena, &usual, &rules, err));
    o.settings = settings;
    o.rule = rules.rule;
    o.n_rules = rules.n;
    PARE_TRY(pare_compression_new(model, &o, &run, err));
    PARE_TRY(pare_compression_use_data(run, t->data, t->batch, err));
    PARE_TRY(pare_compression_compress(run, err));
    pare_compression_free(run);
    pare_model_free(folded);
    return 0;
}

static int measure(struct task *t, char **argv, struct pare_err *err)
{
    struct rusage u;
    double wall, cpu;

    PARE_TRY(pare_model_load(argv[1], &t->model, err));
    PARE_TRY(pare_data_open(argv[2], "train", NULL, &t->data, err));
    wall = pare_now();
    cpu = processor();
    PARE_TRY(strcmp(t->observer, "none") ? calibrate(t, err) : only_run(t, err));
    getrusage(RUSAGE_SELF, &u);
    printf("%.6f %.6f %ld\n", pare_now() - wall, processor() - cpu, u.ru_maxrss);
    return 0;
}

int main(int argc, char **argv)
{
    struct task t = { .arena = pare_arena_new(1 << 16) };
    struct pare_err err;

    if (argc != 7 || !t.arena) {
        fprintf(stderr, "usage: bench_calibrate MODEL DATA BATCH STEPS THREADS OBSERVER\n");
        return 2;
    }
    t.batch = strtoll(argv[3], NULL, 10);
    t.steps = strtoll(argv[4], NULL, 10);
    t.threads = (int)strtol(argv[5], NULL, 10);
    t.observer = argv[6];
    if (measure(&t, argv, &err)) {
        fprintf(stderr, "bench_calibrate: %s\n", err.msg);
        return 1;
    }
    return 0;
}
