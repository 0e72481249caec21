/* bench_sparse.c - `make bench-sparse`: layers with dense and with block-sparse weights.
 *
 * usage: bench_sparse THREADS ROUNDS [PART-OF-NAME]
 *
 * Each layer is a convolution (or a product) with Relu after another layer, so that its input has
 * the layout that plans use, and only its own step is measured.  For each sparsity, weights that
 * are zero in blocks of 8x1, 4x1 and 1 run with their kernels, and dense ones with oneDNN's direct
 * convolution and with the plan's choice.  All take turns; the minimum of each counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "onnx/builder.h"
#include "plan/plan.h"

#define MOST 201

struct layer {
    const char *name;
    int64_t C, O, size, kernel, stride; /* kernel 0: a product of `size` rows */
};

static const struct layer layers[] = {
    { "resnet18 64-64@56", 64, 64, 56, 3, 1 },
    { "resnet18 64-128@56/2", 64, 128, 56, 3, 2 },
    { "resnet18 128-128@28", 128, 128, 28, 3, 1 },
    { "resnet18 128-256@28/2", 128, 256, 28, 3, 2 },
    { "resnet18 256-256@14", 256, 256, 14, 3, 1 },
    { "resnet18 256-512@14/2", 256, 512, 14, 3, 2 },
    { "resnet18 512-512@7", 512, 512, 7, 3, 1 },
    { "vgg16 64-64@224", 64, 64, 224, 3, 1 },
    { "vgg16 64-128@112", 64, 128, 112, 3, 1 },
    { "vgg16 128-128@112", 128, 128, 112, 3, 1 },
    { "vgg16 128-256@56", 128, 256, 56, 3, 1 },
    { "vgg16 256-256@56", 256, 256, 56, 3, 1 },
    { "vgg16 256-512@28", 256, 512, 28, 3, 1 },
    { "vgg16 512-512@28", 512, 512, 28, 3, 1 },
    { "vgg16 512-512@14", 512, 512, 14, 3, 1 },
    { "1x1 256-64@56", 256, 64, 56, 1, 1 },
    { "1x1 512-128@28", 512, 128, 28, 1, 1 },
    { "1x1 2048-512@7", 2048, 512, 7, 1, 1 },
    { "product 4096-4096, 1 row", 4096, 4096, 1, 0, 1 },
    { "product 1024-1024, 16 rows", 1024, 1024, 16, 0, 1 },
    { "product 768-3072, 197 rows", 768, 3072, 197, 0, 1 },
};

enum { DIRECT, DENSE, FOURS, EIGHTS, ONES, KINDS };
static const int rows_of[KINDS] = { 0, 0, 4, 8, 1 };

struct entry {
    struct pare_model *model;
    struct pare_plan *plan;
    struct pare_step *step;
    struct pare_tensor x;
    double time[MOST];
};

/* Weights (O, K), zero in blocks of `rows`. */
static void fill(struct pare_tensor *t, int rows, double zeros, uint64_t seed)
{
    int64_t O = t->dim[0], K = pare_numel(t) / O;
    struct pare_rng r;

    pare_rng_init(&r, seed);
    for (int64_t i = 0; i < O * K; i++)
        pare_f32_mut(t)[i] = (float)(pare_rng_uniform(&r) + 0.1);
    for (int64_t o = 0; rows && o < O; o += rows)
        for (int64_t k = 0; k < K; k++)
            if (pare_rng_uniform(&r) < zeros)
                for (int64_t i = o; i < o + rows && i < O; i++)
                    pare_f32_mut(t)[i * K + k] = 0;
}

static int make_model(const struct layer *l, int rows, double zeros, struct pare_model **m,
                      struct pare_err *err)
{
    int64_t k = l->kernel, pad = k / 2, out = (l->size + 2 * pad - k) / l->stride + 1;
    struct pare_builder *mk;
    struct pare_tensor t;
    const char *x, *w;

    PARE_TRY(pare_builder_new("layer", &mk, err));
    if (!k) {
        x = pare_builder_input(mk, "x", 2, (int64_t[]){ l->size, l->C });
        w = pare_builder_weight(mk, "w", 2, (int64_t[]){ l->O, l->C }, &t);
        if (t.data)
            fill(&t, rows, zeros, 1);
        x = pare_builder_node(mk, "Gemm", "it", x, w, NULL);
        pare_builder_int(mk, "transB", 1);
        pare_builder_node(mk, "Relu", "relu", x, NULL);
        pare_builder_output(mk, "y", 2, (int64_t[]){ l->size, l->O });
        return pare_builder_done(mk, m, err);
    }
    x = pare_builder_input(mk, "x", 4, (int64_t[]){ 1, 16, l->size, l->size });
    w = pare_builder_weight(mk, "w0", 4, (int64_t[]){ l->C, 16, 1, 1 }, &t);
    if (t.data)
        fill(&t, 0, 0, 2);
    x = pare_builder_node(mk, "Conv", "front", x, w, NULL);
    w = pare_builder_weight(mk, "w", 4, (int64_t[]){ l->O, l->C, k, k }, &t);
    if (t.data)
        fill(&t, rows, zeros, 1);
    x = pare_builder_node(mk, "Conv", "it", x, w, NULL);
    pare_builder_ints(mk, "pads", 4, (int64_t[]){ pad, pad, pad, pad });
    pare_builder_ints(mk, "strides", 2, (int64_t[]){ l->stride, l->stride });
    pare_builder_node(mk, "Relu", "relu", x, NULL);
    pare_builder_output(mk, "y", 4, (int64_t[]){ 1, l->O, out, out });
    return pare_builder_done(mk, m, err);
}

static int open_entry(struct entry *e, const struct layer *l, int kind, double zeros, int threads,
                      struct pare_err *err)
{
    static const char *const without[] = { "conv_winograd", "conv_1x1_packed", "linear_packed",
                                           "conv_sparse",   "linear_sparse",   NULL };
    struct pare_plan_opts o = { .threads = threads };
    int64_t dim[] = { 1, 16, l->size, l->size }, dim2[] = { l->size, l->C };
    struct pare_rng r;

    PARE_TRY(make_model(l, rows_of[kind], zeros, &e->model, err));
    if (kind == DIRECT)
        PARE_TRY(pare_plan_build(e->model,
                                 &(struct pare_plan_build){ .opts = &o, .without = without },
                                 &e->plan, err));
    else
        PARE_TRY(pare_plan_build(e->model,
                                 &(struct pare_plan_build){
                                     .opts = &o,
                                     .sparse_rows = rows_of[kind] ? rows_of[kind] : -1 },
                                 &e->plan, err));
    PARE_TRY(pare_tensor_new(e->plan->arena, &e->x, PARE_F32, l->kernel ? 4 : 2,
                             l->kernel ? dim : dim2, err));
    pare_rng_init(&r, 3);
    for (int64_t i = 0; i < pare_numel(&e->x); i++)
        pare_f32_mut(&e->x)[i] = (float)pare_rng_uniform(&r);
    for (int i = 0; i < e->plan->n_steps; i++)
        if (e->plan->step[i]->node && !strcmp(e->plan->step[i]->node->name, "it"))
            e->step = e->plan->step[i];
    pare_plan_profile(e->plan, true);
    return e->step ? 0 : pare_fail(err, PARE_ECONFIG, "the layer has no step");
}

static int turn(struct entry *e, int round, struct pare_err *err)
{
    struct pare_tensor y;
    double before = e->step->seconds;

    PARE_TRY(pare_plan_execute(e->plan, &e->x, &y, err));
    e->time[round] = e->step->seconds - before;
    return 0;
}

/* The fastest run, which other programs disturbed least. */
static double fastest(const struct entry *e, int n)
{
    double t = e->time[0];

    for (int i = 1; i < n; i++)
        t = e->time[i] < t ? e->time[i] : t;
    return t;
}

static double ratio(const struct entry *a, const struct entry *b, int n)
{
    return fastest(a, n) / fastest(b, n);
}

static int bench(const struct layer *l, double zeros, int threads, int rounds, struct pare_err *err)
{
    static struct entry e[KINDS];

    memset(e, 0, sizeof(e));
    for (int k = 0; k < KINDS; k++)
        PARE_TRY(open_entry(&e[k], l, k, zeros, threads, err));
    for (int i = -2; i < rounds; i++)
        for (int k = 0; k < KINDS; k++)
            PARE_TRY(turn(&e[k], i < 0 ? 0 : i, err));
    printf("%-27s %3.0f %%  %8.3f %8.3f  |%6.2f%6.2f%6.2f  |%6.2f%6.2f%6.2f\n", l->name,
           zeros * 100, fastest(&e[DIRECT], rounds) * 1e3, fastest(&e[DENSE], rounds) * 1e3,
           ratio(&e[DIRECT], &e[FOURS], rounds), ratio(&e[DIRECT], &e[EIGHTS], rounds),
           ratio(&e[DIRECT], &e[ONES], rounds), ratio(&e[DENSE], &e[FOURS], rounds),
           ratio(&e[DENSE], &e[EIGHTS], rounds), ratio(&e[DENSE], &e[ONES], rounds));
    fflush(stdout);
    for (int k = 0; k < KINDS; k++) {
        pare_plan_free(e[k].plan);
        pare_model_free(e[k].model);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const double zeros[] = { 0.5, 0.7, 0.8, 0.9, 0.95 };
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 15;
    struct pare_err err;

    rounds = rounds < 1 ? 1 : rounds > MOST ? MOST : rounds;
    printf("threads: %d; times of dense layers, then speedup with zeros\n", threads);
    printf("%-27s %5s  %8s %8s  |%18s  |%18s\n", "", "", "direct", "dense", "direct / sparse",
           "dense / sparse");
    printf("%-27s %5s  %8s %8s  |%6s%6s%6s  |%6s%6s%6s\n", "layer", "zeros", "ms", "ms", "4x1",
           "8x1", "1x1", "4x1", "8x1", "1x1");
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
        for (int z = 0; z < 5; z++)
            if ((argc < 4 || strstr(layers[i].name, argv[3])) &&
                bench(&layers[i], zeros[z], threads, rounds, &err)) {
                fprintf(stderr, "bench_sparse: %s: %s\n", layers[i].name, err.msg);
                return 1;
            }
    return 0;
}
