/* bench_dist.c - cost of all-reduce: mpirun -n N bench_dist [SECONDS]
 *
 * Prints, for several sizes, the time of a blocking sum and of an asynchronous one in buckets of
 * 1 MB, as for gradients: the median and, for busy machines, the minimum.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dist/dist.h"

#define BUCKET ((int64_t)1 << 18)
#define MOST 2000

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int sum(struct pare_dist *d, float *x, int64_t n, bool async, struct pare_err *err)
{
    if (!async)
        return pare_dist_merge(d, PARE_MERGE_SUM, PARE_F32, x, n, err);
    for (int64_t at = 0; at < n; at += BUCKET)
        PARE_TRY(pare_dist_start(d, PARE_F32, x + at, n - at < BUCKET ? n - at : BUCKET, err));
    return pare_dist_finish(d, err);
}

/* All processes must stop after the same number of turns, which the first process decides. */
static double median(struct pare_dist *d, float *x, int64_t n, bool async, double seconds,
                     double *least)
{
    static double times[MOST];
    struct pare_err err;
    double end = pare_now() + seconds;
    uint8_t more = 1;
    int count = 0;

    while (more && count < MOST) {
        double start;

        memset(x, 0, (size_t)n * sizeof(*x));
        pare_dist_barrier(d, &err);
        start = pare_now();
        if (sum(d, x, n, async, &err)) {
            fprintf(stderr, "%s\n", err.msg);
            exit(1);
        }
        times[count++] = pare_now() - start;
        more = pare_now() < end;
        pare_dist_broadcast(d, &more, 1, &err);
    }
    qsort(times, (size_t)count, sizeof(*times), order);
    *least = times[0];
    return times[count / 2];
}

int main(int argc, char **argv)
{
    static const int64_t sizes[] = { 2, 256, 4096, 1 << 16, 1 << 18, 1 << 20, 11173962 };
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.5;
    struct pare_arena *a = pare_arena_new(1 << 20);
    float *x = a ? pare_alloc(a, 11173962, sizeof(*x)) : NULL;
    struct pare_dist *d;
    struct pare_err err;

    if (!x || pare_dist_open(&d, &err)) {
        fprintf(stderr, "%s\n", x ? err.msg : "no memory");
        return 1;
    }
    if (!pare_dist_rank(d))
        printf("%d processes, us\n%12s %12s %12s %12s %12s\n", pare_dist_size(d), "bytes",
               "blocking", "minimum", "buckets", "minimum");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        double minimum[2], blocking = median(d, x, sizes[i], false, seconds, &minimum[0]);
        double async = median(d, x, sizes[i], true, seconds, &minimum[1]);

        if (!pare_dist_rank(d))
            printf("%12lld %12.1f %12.1f %12.1f %12.1f\n", (long long)sizes[i] * 4, 1e6 * blocking,
                   1e6 * minimum[0], 1e6 * async, 1e6 * minimum[1]);
    }
    pare_dist_close(d);
    pare_arena_free(a);
    return 0;
}
