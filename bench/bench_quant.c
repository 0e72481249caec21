/* bench_quant.c - cost of quantizers in training: steps of a float model and of quantized ones.
 *
 *     bench_quant NETWORK BATCH THREADS ROUNDS [QUANTIZER...]
 *
 * prints the medians of a step in milliseconds, one name and two numbers per line: wall time and
 * processor time.  All take turns, so that disturbances affect all of them.  Weights and inputs of
 * convolutions and linear layers have 8 bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pare/compress.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/rng.h"
#include "compress/compression.h"
#include "train/trainer.h"

#define MAX_JOBS 8

static struct pare_err err;

static void check(int rc)
{
    if (!rc)
        return;
    fprintf(stderr, "bench_quant: %s\n", err.msg);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct job {
    const char *name;
    struct pare_model *model;
    struct pare_trainer *trainer;
    struct pare_compression *run; /* NULL: float */
    double *time[2];              /* wall time, processor time */
};

static void attach(struct job *j, int threads)
{
    static const char *const types[] = { "Conv2d", "Linear", NULL };
    struct pare_rule rule = { .op_types = types,
                              .keys = "quant_types=weight,input quant_bits=8 "
                                      "quant_dtype.weight=int "
                                      "quant_scheme.weight=per_channel_symmetric" };
    struct pare_compression_opts o = { .quantizer = j->name, .rule = &rule, .n_rules = 1 };

    o.threads = threads;
    check(pare_compression_new(j->model, &o, &j->run, &err));
    check(pare_compression_attach(j->run, j->trainer, NULL, 0, &err));
    check(pare_compression_compress(j->run, &err));
}

static void open_job(struct job *j, struct pare_arena *a, const char *net, const int64_t *chw,
                     int threads)
{
    struct pare_setting momentum = { .name = "momentum", .type = PARE_OPT_FLOAT, .num = 0.9 };
    struct pare_trainer_opts o = { .threads = threads };
    void *conf;

    check(pare_model_new(net, chw, 10, 1, &j->model, &err));
    check(pare_find_loss("cross_entropy", &o.loss, &err));
    conf = pare_alloc(a, o.loss->conf_size + 1, 1);
    check(pare_opts_apply(o.loss->opts, NULL, 0, conf, a, &err));
    o.loss_conf = conf;
    check(pare_find_optimizer("sgd", &o.optimizer, &err));
    conf = pare_alloc(a, o.optimizer->conf_size + 1, 1);
    check(pare_opts_apply(o.optimizer->opts, &momentum, 1, conf, a, &err));
    o.optimizer_conf = conf;
    check(pare_trainer_new(j->model, &o, &j->trainer, &err));
    if (strcmp(j->name, "float") != 0)
        attach(j, threads);
}

static double used(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void step(struct job *j, const struct pare_tensor *x, const struct pare_tensor *y, int round)
{
    double start = pare_now(), before = used();
    struct pare_score score;

    check(pare_trainer_gradient(j->trainer, x, y, &score, &err));
    check(pare_trainer_update(j->trainer, 1e-4, &err));
    if (round < 0)
        return;
    j->time[0][round] = pare_now() - start;
    j->time[1][round] = used() - before;
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof(*t), by_size);
    return t[n / 2] * 1e3;
}

static void show(const struct job *j)
{
    const struct pare_plan *p = j->trainer->plan[0];

    for (int i = 0; i < p->n_steps; i++)
        fprintf(stderr, "%s %-12s %-28.28s %9.3f %9.3f\n", j->name, p->step[i]->kernel->name,
                p->step[i]->node ? p->step[i]->node->name : p->step[i]->in[0]->name,
                p->step[i]->seconds * 1e3, p->step[i]->backward_seconds * 1e3);
}

int main(int argc, char **argv)
{
    const char *net = argc > 1 ? argv[1] : "lenet";
    int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 64;
    int threads = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1;
    int rounds = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 5, n = 1;
    const int64_t chw[3] = { strcmp(net, "lenet") ? 3 : 1, strcmp(net, "lenet") ? 32 : 28,
                             strcmp(net, "lenet") ? 32 : 28 };
    const int64_t dim[4] = { batch, chw[0], chw[1], chw[2] };
    struct pare_arena *a = pare_arena_new(1 << 20);
    struct job job[MAX_JOBS] = { { .name = "float" } };
    struct pare_tensor x, y;
    struct pare_rng rng;
    bool profile = getenv("PARE_BENCH_STEPS") != NULL;

    for (int i = 5; i < argc && n < MAX_JOBS; i++)
        job[n++].name = argv[i];
    check(pare_tensor_new(a, &x, PARE_F32, 4, dim, &err));
    check(pare_tensor_new(a, &y, PARE_I64, 1, &batch, &err));
    pare_rng_init(&rng, 1);
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)pare_rng_normal(&rng);
    for (int64_t i = 0; i < batch; i++)
        pare_i64_mut(&y)[i] = i % 10;
    for (int i = 0; i < n; i++) {
        open_job(&job[i], a, net, chw, threads);
        for (int k = 0; k < 2; k++)
            job[i].time[k] = pare_alloc(a, (size_t)rounds, sizeof(double));
    }
    for (int r = -2; r < rounds; r++)
        for (int i = 0; i < n; i++) {
            step(&job[i], &x, &y, r);
            job[i].trainer->plan[0]->profile = profile;
        }
    for (int i = 0; i < n; i++) {
        printf("%s %.4f %.4f\n", job[i].name, median(job[i].time[0], rounds),
               median(job[i].time[1], rounds));
        if (profile)
            show(&job[i]);
        pare_trainer_free(job[i].trainer);
        pare_compression_free(job[i].run);
        pare_model_free(job[i].model);
    }
    pare_arena_free(a);
    return 0;
}
