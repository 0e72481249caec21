/* peer_pare.c - Pare's peer of the inference benchmark; README.md describes the protocol. */
#include "peer.h"

#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int write_output(const char *path, const struct pare_tensor *y)
{
    size_t n = (size_t)pare_numel(y);
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(y->data, sizeof(float), n, f) == n;

    if (f && fclose(f))
        ok = 0;
    return ok;
}

/* For a line "run K", run K times and print K times on one line. */
static int serve(struct pare_plan *plan, const struct pare_tensor *x, struct pare_err *err)
{
    struct pare_tensor y;
    char line[64];

    puts("ready plan");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        long k = strncmp(line, "run ", 4) ? 0 : strtol(line + 4, NULL, 10);

        for (long i = 0; i < k; i++) {
            double start = now_ms();

            PARE_TRY(pare_plan_run(plan, x, 1, &y, 1, err));
            printf("%.4f ", now_ms() - start);
        }
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *model = NULL;
    struct pare_plan *plan = NULL;
    struct pare_err err = { 0 };
    struct pare_tensor x = { 0 }, y;
    struct pare_plan_opts opts = { .in = &x, .n_in = 1, .tune = true };
    int rc;

    if (argc < 6 || argc > 7 || !a || !parse_shape(argv[2], &x) || !read_file(a, argv[4], &x)) {
        fputs("usage: peer_pare MODEL.onnx SHAPE THREADS INPUT OUTPUT [CHOICES]\n", stderr);
        return 2;
    }
    opts.threads = (int)strtol(argv[3], NULL, 10);
    opts.cache = pare_cache_folder(a);
    opts.choices = argv[6]; /* or NULL */
    rc = pare_model_load(argv[1], &model, &err);
    if (!rc)
        rc = pare_plan_new(model, &opts, &plan, &err);
    if (!rc)
        rc = pare_plan_run(plan, &x, 1, &y, 1, &err);
    if (!rc && !write_output(argv[5], &y))
        rc = pare_fail(&err, PARE_EIO, "cannot write %s", argv[5]);
    if (!rc)
        rc = serve(plan, &x, &err);
    if (rc)
        fprintf(stderr, "peer_pare: %s\n", err.msg);
    pare_plan_free(plan);
    pare_model_free(model);
    pare_arena_free(a);
    return rc != 0;
}
