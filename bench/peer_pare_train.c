/* peer_pare_train.c - Pare's peer of the training benchmark; README.md describes the protocol. */
#include "peer.h"

#include <string.h>

#include "../src/base/clock.h"
#include "../src/base/options.h"
#include "../src/train/trainer.h"

#define MOMENTUM 0.9

struct job {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_trainer *trainer;
    struct pare_tensor x, y;
    double lr;
    double seconds[4]; /* forward, loss, backward, optimizer; when profiled */
};

/* Resident memory of the process, before a model is loaded. */
static long resident_kb(void)
{
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    long kb = 0;

    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, "VmRSS:", 6))
            kb = strtol(line + 6, NULL, 10);
    if (f)
        fclose(f);
    return kb;
}

static int make(struct job *j, const char *path, int threads, bool bf16, struct pare_err *err)
{
    struct pare_trainer_opts o = { .threads = threads,
                                   .precision = bf16 ? PARE_PRECISION_BF16 : PARE_PRECISION_F32 };
    struct pare_setting momentum = { .name = "momentum", .type = PARE_OPT_FLOAT, .num = MOMENTUM };
    void *conf, *loss;

    PARE_TRY(pare_find_loss("cross_entropy", &o.loss, err));
    PARE_TRY(pare_find_optimizer("sgd", &o.optimizer, err));
    conf = pare_alloc(j->arena, 1, o.optimizer->conf_size);
    loss = pare_alloc(j->arena, 1, o.loss->conf_size);
    if (!conf || !loss)
        return pare_fail(err, PARE_ENOMEM, "no memory");
    PARE_TRY(pare_opts_apply(o.optimizer->opts, &momentum, 1, conf, j->arena, err));
    PARE_TRY(pare_opts_apply(o.loss->opts, NULL, 0, loss, j->arena, err));
    o.optimizer_conf = conf;
    o.loss_conf = loss;
    PARE_TRY(pare_model_load(path, &j->model, err));
    PARE_TRY(pare_trainer_new(j->model, &o, &j->trainer, err));
    pare_trainer_block_params(j->trainer, true); /* as the loop of train.c does */
    return 0;
}

static int step(struct job *j, double *loss, struct pare_err *err)
{
    struct pare_score score;
    double t[5];

    t[0] = pare_now();
    PARE_TRY(pare_trainer_forward(j->trainer, &j->x, NULL, err));
    t[1] = pare_now();
    PARE_TRY(pare_trainer_loss(j->trainer, &j->y, &score, err));
    t[2] = pare_now();
    PARE_TRY(pare_trainer_backward(j->trainer, err));
    t[3] = pare_now();
    PARE_TRY(pare_trainer_update(j->trainer, j->lr, err));
    t[4] = pare_now();
    for (int i = 0; i < 4; i++)
        j->seconds[i] += t[i + 1] - t[i];
    *loss = score.loss;
    return 0;
}

/* The losses of the first steps, for comparison. */
static int first_steps(struct job *j, const char *path, int n, struct pare_err *err)
{
    FILE *f = fopen(path, "wb");
    int rc = f ? 0 : pare_fail(err, PARE_EIO, "cannot write %s", path);

    for (int i = 0; i < n && !rc; i++) {
        double loss;
        float single;

        rc = step(j, &loss, err);
        single = (float)loss;
        if (!rc && fwrite(&single, sizeof(single), 1, f) != 1)
            rc = pare_fail(err, PARE_EIO, "cannot write %s", path);
    }
    if (f && fclose(f) && !rc)
        rc = pare_fail(err, PARE_EIO, "cannot write %s", path);
    return rc;
}

/* One line: milliseconds of a step's parts, then a word for each plan step:
 * kernel/operator/fused/forward/backward. */
static int profile(struct job *j, long steps, struct pare_err *err)
{
    struct pare_plan *plan = j->trainer->plan[j->trainer->at];
    struct pare_mark mark = pare_mark(j->arena);
    struct pare_plan_stat *stat;
    double ms = 1e3 / (double)steps, loss;
    int n;

    memset(j->seconds, 0, sizeof(j->seconds));
    pare_plan_profile(plan, true);
    for (long i = 0; i < steps; i++)
        PARE_TRY(step(j, &loss, err));
    n = pare_plan_stats(plan, j->arena, &stat);
    pare_plan_profile(plan, false);
    for (int i = 0; i < 4; i++)
        printf("%.4f ", j->seconds[i] * ms);
    printf("%zu ", plan->memory_bytes);
    for (int i = 0; i < n; i++)
        printf("%s/%s/%d/%.4f/%.4f ", stat[i].kernel, stat[i].type, stat[i].n_fused,
               stat[i].seconds * ms, stat[i].back_seconds * ms);
    pare_reset(j->arena, mark);
    return 0;
}

/* "run K": run K steps and print K times on one line.  "profile K": print the time by kernel. */
static int serve(struct job *j, struct pare_err *err)
{
    char line[64];

    while (fgets(line, sizeof(line), stdin)) {
        const char *number = strchr(line, ' ');
        long k = number ? strtol(number, NULL, 10) : 0;

        for (long i = 0; i < k && line[0] == 'r'; i++) {
            double start = pare_now(), loss;

            PARE_TRY(step(j, &loss, err));
            printf("%.4f ", (pare_now() - start) * 1e3);
        }
        if (line[0] == 'p')
            PARE_TRY(profile(j, k, err));
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct job j = { .arena = pare_arena_new(1 << 16) };
    long base = resident_kb();
    struct pare_err err = { 0 };
    int rc;

    if (argc < 9 || argc > 10 || !j.arena || !parse_shape(argv[2], &j.x)) {
        fputs("usage: peer_pare_train MODEL.onnx SHAPE THREADS INPUT LABELS LOSSES STEPS RATE "
              "[f32|bf16]\n",
              stderr);
        return 2;
    }
    j.y = (struct pare_tensor){ .dtype = PARE_I64, .rank = 1, .dim = { j.x.dim[0] } };
    if (!read_file(j.arena, argv[4], &j.x) || !read_file(j.arena, argv[5], &j.y)) {
        fputs("peer_pare_train: cannot read the batch\n", stderr);
        return 2;
    }
    j.lr = strtod(argv[8], NULL);
    rc = make(&j, argv[1], (int)strtol(argv[3], NULL, 10), argc > 9 && !strcmp(argv[9], "bf16"),
              &err);
    if (!rc)
        rc = first_steps(&j, argv[6], (int)strtol(argv[7], NULL, 10), &err);
    if (!rc) {
        printf("ready plan %ld\n", base);
        fflush(stdout);
        rc = serve(&j, &err);
    }
    if (rc)
        fprintf(stderr, "peer_pare_train: %s\n", err.msg);
    pare_trainer_free(j.trainer);
    pare_model_free(j.model);
    pare_arena_free(j.arena);
    return rc != 0;
}
