/* bench_train_hooks.c - cost of masks in training: the optimizer, and a step with hooks.
 *
 *     bench_train_hooks THREADS ROUNDS
 *
 * prints medians in milliseconds, one name and number per line; each pair takes turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pare/compress.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/options.h"
#include "train/training.h"

#define N 25000000

static struct pare_err err;

static void check(int rc)
{
    if (!rc)
        return;
    fprintf(stderr, "bench_train_hooks: %s\n", err.msg);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof(*t), by_size);
    return t[n / 2] * 1e3;
}

/* ---- the optimizer ----------------------------------------------------------------- */

static struct pare_optim *make_optim(struct pare_arena *a, const char *name, int threads,
                                     const uint8_t *mask)
{
    struct pare_setting momentum = { .name = "momentum", .type = PARE_OPT_FLOAT, .num = 0.9 };
    struct pare_optim_opts o = { .n_params = 1, .threads = threads };
    struct pare_optim_param p = { .name = "w" };
    struct pare_optim *optim;
    int64_t n = N;
    void *conf;

    check(pare_find_optimizer(name, &o.type, &err));
    conf = pare_alloc(a, o.type->conf_size + 1, 1);
    check(pare_opts_apply(o.type->opts, &momentum, !strcmp(name, "sgd"), conf, a, &err));
    check(pare_tensor_new(a, &p.value, PARE_F32, 1, &n, &err));
    check(pare_tensor_new(a, &p.grad, PARE_F32, 1, &n, &err));
    for (int64_t i = 0; i < n; i++) {
        pare_f32_mut(&p.value)[i] = (float)(i % 1000) * 1e-3f;
        pare_f32_mut(&p.grad)[i] = (float)(i % 777) * 1e-4f;
    }
    o.conf = conf;
    o.param = &p;
    check(pare_optim_new(a, &o, &optim, &err));
    if (mask)
        pare_optim_mask(optim, 0, &p.value, mask, pare_alloc(a, N, sizeof(float)));
    return optim;
}

static void optimizer(const char *name, int threads, int rounds)
{
    struct pare_arena *a = pare_arena_new(1 << 20);
    uint8_t *mask = pare_alloc(a, N, 1);
    double *t[2] = { malloc((size_t)rounds * sizeof(double)),
                     malloc((size_t)rounds * sizeof(double)) };
    struct pare_optim *o[2];

    for (int64_t i = 0; i < N; i++)
        mask[i] = (i * 2654435761u >> 7) % 10 == 0;
    o[0] = make_optim(a, name, threads, NULL);
    o[1] = make_optim(a, name, threads, mask);
    for (int r = -1; r < rounds; r++)
        for (int k = 0; k < 2; k++) {
            double start = pare_now();

            check(pare_optim_step(o[k], 0.01, &err));
            if (r >= 0)
                t[k][r] = pare_now() - start;
        }
    printf("%s %.3f\n%s-masked %.3f\n", name, median(t[0], rounds), name, median(t[1], rounds));
    free(t[0]);
    free(t[1]);
    pare_arena_free(a);
}

/* ---- training hooks ----------------------------------------------------------------- */

struct job {
    struct pare_model *model;
    struct pare_training *learn;
    struct pare_compression *run;
    struct pare_tensor x, y;
};

static void open_job(struct job *j, int threads, bool hooked)
{
    static const int64_t chw[3] = { 1, 8, 8 };
    struct pare_rule rule = { .op_types = (const char *const[]){ "default", NULL },
                              .keys = "sparsity=0.9" };
    struct pare_compression_opts o = { .pruner = "level", .rule = &rule, .n_rules = 1 };
    char settings[64];

    snprintf(settings, sizeof(settings), "batch=64 lr=1e-6 threads=%d", threads);
    check(pare_model_new("lenet", chw, 10, 1, &j->model, &err));
    check(pare_training_open(j->model, "digits", settings, &j->learn, &err));
    if (hooked) {
        check(pare_compression_new(j->model, &o, &j->run, &err));
        check(pare_compression_follow(j->run, j->learn, &err));
        check(pare_compression_compress(j->run, &err));
    }
    check(pare_training_next(j->learn, &j->x, &j->y, &err));
}

static double step(struct job *j)
{
    double start = pare_now(), loss;

    check(pare_training_forward(j->learn, &j->x, 1, NULL, &err));
    check(pare_training_loss(j->learn, &j->y, &loss, &err));
    check(pare_training_backward(j->learn, &err));
    check(pare_training_optimize(j->learn, &err));
    check(pare_training_step(j->learn, &err));
    return pare_now() - start;
}

static double hooks_only(struct job *j)
{
    double start = pare_now();

    check(pare_training_step(j->learn, &err));
    return pare_now() - start;
}

static void training_step(int threads, int rounds)
{
    struct job j[2] = { { 0 }, { 0 } };
    int n = rounds * 40;
    double *t[3];

    for (int k = 0; k < 3; k++)
        t[k] = malloc((size_t)n * sizeof(double));
    open_job(&j[0], threads, false);
    open_job(&j[1], threads, true);
    for (int r = -5; r < n; r++)
        for (int k = 0; k < 3; k++) {
            double seconds = k < 2 ? step(&j[k]) : hooks_only(&j[1]);

            if (r >= 0)
                t[k][r] = seconds;
        }
    printf("step %.4f\nstep-masked %.4f\nhooks %.6f\n", median(t[0], n), median(t[1], n),
           median(t[2], n));
    for (int k = 0; k < 2; k++) {
        pare_compression_free(j[k].run);
        pare_training_free(j[k].learn);
        pare_model_free(j[k].model);
    }
    for (int k = 0; k < 3; k++)
        free(t[k]);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 7;

    optimizer("sgd", threads, rounds);
    optimizer("adam", threads, rounds);
    training_step(threads, rounds);
    return 0;
}
