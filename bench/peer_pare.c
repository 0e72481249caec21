/* peer_pare.c - Pare's peer of the inference benchmark; README.md describes the protocol. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pare/pare.h>

#include "base/arena.h"
#include "io/npz.h"

#define OUTPUTS 64

struct peer {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_plan *plan;
    struct pare_tensor *x, y[OUTPUTS];
    int n_in, n_out;
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A field of /proc/self/status in kilobytes. */
static long status_kb(const char *field)
{
    char line[128];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, field, strlen(field)))
            kb = strtol(line + strlen(field), NULL, 10);
    if (f)
        fclose(f);
    return kb;
}

/* The inputs in the model's order, from arrays of the same names. */
static int take_inputs(struct peer *p, const struct pare_named *list, int n, struct pare_err *err)
{
    const struct pare_io *io;

    p->n_in = pare_model_inputs(p->model, &io);
    p->x = pare_alloc(p->arena, (size_t)p->n_in, sizeof(*p->x));
    if (!p->x)
        return pare_fail(err, PARE_ENOMEM, "out of memory");
    for (int i = 0; i < p->n_in; i++) {
        int k = 0;

        while (k < n && strcmp(list[k].name, io[i].name))
            k++;
        if (k == n)
            return pare_fail(err, PARE_ECONFIG, "the file of inputs has no '%s'", io[i].name);
        p->x[i] = list[k].t;
    }
    p->n_out = pare_model_outputs(p->model, &io);
    p->n_out = p->n_out < OUTPUTS ? p->n_out : OUTPUTS;
    return 0;
}

static int run(struct peer *p, struct pare_err *err)
{
    return pare_plan_run(p->plan, p->x, p->n_in, p->y, p->n_out, err);
}

/* Write all float32 outputs, one after another. */
static int write_outputs(const struct peer *p, const char *path)
{
    FILE *f = fopen(path, "wb");
    int ok = f != NULL;

    for (int i = 0; ok && i < p->n_out; i++) {
        size_t n = (size_t)pare_numel(&p->y[i]);

        if (p->y[i].dtype == PARE_F32)
            ok = fwrite(p->y[i].data, sizeof(float), n, f) == n;
    }
    if (f && fclose(f))
        ok = 0;
    return ok;
}

/* For a line "run K", run K times and print K times on one line. */
static int serve(struct peer *p, struct pare_err *err)
{
    char line[64];

    puts("ready plan");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        long k = strncmp(line, "run ", 4) ? 0 : strtol(line + 4, NULL, 10);

        for (long i = 0; i < k; i++) {
            double start = now_ms();

            PARE_TRY(run(p, err));
            printf("%.4f ", now_ms() - start);
        }
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}

/* Load, plan and run once; prints milliseconds and the kilobytes that this needed, if asked to. */
static int start(struct peer *p, char **argv, bool print, struct pare_err *err)
{
    struct pare_plan_opts opts = { .tune = !print };
    struct pare_named *list;
    long before;
    double begin;
    int n;

    PARE_TRY(pare_npz_read(p->arena, argv[2], &list, &n, err));
    before = status_kb("VmRSS:");
    begin = now_ms();
    PARE_TRY(pare_model_load(argv[1], &p->model, err));
    PARE_TRY(take_inputs(p, list, n, err));
    opts.in = p->x;
    opts.n_in = p->n_in;
    opts.threads = (int)strtol(argv[3], NULL, 10);
    opts.cache = print ? NULL : pare_cache_folder(p->arena);
    opts.choices = print || !argv[5] || !strcmp(argv[5], "-") ? NULL : argv[5];
    if (!print && argv[5] && argv[6] && !strcmp(argv[6], "bf16"))
        opts.precision = PARE_PRECISION_BF16;
    PARE_TRY(pare_plan_new(p->model, &opts, &p->plan, err));
    PARE_TRY(run(p, err));
    if (print)
        printf("%.3f %ld\n", now_ms() - begin, status_kb("VmHWM:") - before);
    return 0;
}

int main(int argc, char **argv)
{
    struct peer p = { .arena = pare_arena_new(1 << 16) };
    struct pare_err err = { 0 };
    bool print = argc == 5 && !strcmp(argv[4], "start");
    int rc;

    if (argc < 5 || argc > 7 || !p.arena) {
        fputs("usage: peer_pare MODEL.onnx INPUTS.npz THREADS OUTPUT|start [CHOICES|-] "
              "[f32|bf16]\n",
              stderr);
        return 2;
    }
    rc = start(&p, argv, print, &err);
    if (!rc && !print && !write_outputs(&p, argv[4]))
        rc = pare_fail(&err, PARE_EIO, "cannot write %s", argv[4]);
    if (!rc && !print)
        rc = serve(&p, &err);
    if (rc)
        fprintf(stderr, "peer_pare: %s\n", err.msg);
    pare_plan_free(p.plan);
    pare_model_free(p.model);
    pare_arena_free(p.arena);
    return rc != 0;
}
