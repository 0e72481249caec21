/* bench_masks.c - Pare's peer of `make bench-masks`: masks and scores of one tensor, on one thread.
 *
 * usage: bench_masks weight.npy mask.npy
 *
 * A line "level 0.8", "l1 out_channel" or "l2 in_channel" on stdin is one turn; the answer is its
 * time in milliseconds.  "write" leaves the last mask in mask.npy.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "prune/rank.h"
#include "io/npy.h"

struct bench {
    struct pare_arena *arena, *scratch;
    struct pare_tensor w, mask;
    float *score;
    struct pare_err err;
};

/* The mask of the level pruner, starting from one that keeps all weights. */
static int level(struct bench *b, double sparsity, double *seconds)
{
    struct pare_grain g = { .name = "element" };
    struct pare_units u;
    struct pare_ranked r = { .units = &u, .weight = &b->w, .keep = b->mask.data };
    double start;

    r.sparsity = sparsity;
    PARE_TRY(pare_units_make(&b->w, &g, &u, &b->err));
    memset(b->mask.data, 1, (size_t)u.n);
    start = pare_now();
    PARE_TRY(pare_rank_local(&r, 1, b->scratch, &b->err));
    *seconds = pare_now() - start;
    return 0;
}

static int scores(struct bench *b, int power, const char *name, double *seconds)
{
    struct pare_grain g = { .name = name, .in_axis = 1 };
    struct pare_units u;
    double start;

    PARE_TRY(pare_units_make(&b->w, &g, &u, &b->err));
    start = pare_now();
    pare_units_sum(&u, &b->w, power, b->score);
    *seconds = pare_now() - start;
    return 0;
}

static int turn(struct bench *b, const char *mask, const char *line, double *seconds)
{
    char name[32];
    double sparsity;
    int power;

    *seconds = 0;
    if (!strcmp(line, "write\n"))
        return pare_npy_write(mask, &b->mask, &b->err);
    if (sscanf(line, "level %lf", &sparsity) == 1)
        return level(b, sparsity, seconds);
    if (sscanf(line, "l%d %31s", &power, name) == 2)
        return scores(b, power, name, seconds);
    return pare_fail(&b->err, PARE_ECONFIG, "no turn is called %s", line);
}

static int run(struct bench *b, const char *weight, const char *mask)
{
    char line[64];

    b->arena = pare_arena_new(1 << 16);
    b->scratch = pare_arena_new(1 << 16);
    if (!b->arena || !b->scratch)
        return pare_fail(&b->err, PARE_ENOMEM, "no memory");
    PARE_TRY(pare_npy_read(b->arena, weight, &b->w, &b->err));
    PARE_TRY(pare_tensor_new(b->arena, &b->mask, PARE_BOOL, b->w.rank, b->w.dim, &b->err));
    b->score = pare_alloc(b->arena, (size_t)pare_numel(&b->w), sizeof(float));
    if (!b->score)
        return pare_fail(&b->err, PARE_ENOMEM, "no memory");
    while (fgets(line, sizeof(line), stdin)) {
        double seconds;

        PARE_TRY(turn(b, mask, line, &seconds));
        printf("%.6f\n", seconds * 1e3);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = { .arena = NULL };
    int rc;

    if (argc != 3) {
        fprintf(stderr, "usage: bench_masks weight.npy mask.npy\n");
        return 2;
    }
    rc = run(&b, argv[1], argv[2]);
    if (rc)
        fprintf(stderr, "bench_masks: %s\n", b.err.msg);
    pare_arena_free(b.arena);
    pare_arena_free(b.scratch);
    return rc ? 1 : 0;
}
