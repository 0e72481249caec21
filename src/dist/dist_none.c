/* dist_none.c - the build without MPI: a single process. */
#include <stdlib.h>

#include "dist.h"

int pare_dist_env_rank(void)
{
    return 0;
}

/* Several processes would overwrite each other's files. */
int pare_dist_open(struct pare_dist **to, struct pare_err *err)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };

    *to = NULL;
    for (int i = 0; i < 2; i++) {
        const char *s = getenv(names[i]);

        if (s && strtol(s, NULL, 10) > 1)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "started as one of %.20s processes, but this build has no MPI", s);
    }
    return 0;
}

void pare_dist_close(struct pare_dist *d)
{
    (void)d;
}

int pare_dist_rank(const struct pare_dist *d)
{
    (void)d;
    return 0;
}

int pare_dist_size(const struct pare_dist *d)
{
    (void)d;
    return 1;
}

int pare_dist_threads(const struct pare_dist *d)
{
    (void)d;
    return 0;
}

bool pare_dist_reports(struct pare_dist *d)
{
    return !d;
}

void pare_dist_end_all(struct pare_dist *d, int code)
{
    (void)d;
    (void)code;
}

void pare_dist_suspend(struct pare_dist *d, bool alone)
{
    (void)d;
    (void)alone;
}

int pare_dist_merge(struct pare_dist *d, enum pare_merge how, enum pare_dtype dtype, void *data,
                    int64_t n, struct pare_err *err)
{
    (void)d;
    (void)how;
    (void)dtype;
    (void)data;
    (void)n;
    (void)err;
    return 0;
}

int pare_dist_start(struct pare_dist *d, enum pare_dtype dtype, void *data, int64_t n,
                    struct pare_err *err)
{
    return pare_dist_merge(d, PARE_MERGE_SUM, dtype, data, n, err);
}

void pare_dist_poll(struct pare_dist *d)
{
    (void)d;
}

int pare_dist_finish(struct pare_dist *d, struct pare_err *err)
{
    return pare_dist_barrier(d, err);
}

int pare_dist_broadcast(struct pare_dist *d, void *data, size_t bytes, struct pare_err *err)
{
    return pare_dist_gather(d, data, bytes, err);
}

int pare_dist_barrier(struct pare_dist *d, struct pare_err *err)
{
    (void)d;
    (void)err;
    return 0;
}

int pare_dist_idle_barrier(struct pare_dist *d, struct pare_err *err)
{
    return pare_dist_barrier(d, err);
}

int pare_dist_same(struct pare_dist *d, const uint64_t *hash, int64_t n, int64_t *which,
                   struct pare_err *err)
{
    (void)hash;
    (void)n;
    *which = -1;
    return pare_dist_barrier(d, err);
}

void pare_dist_batch(struct pare_dist *d, int64_t own, int64_t whole)
{
    (void)d;
    (void)own;
    (void)whole;
}

double pare_dist_part(const struct pare_dist *d)
{
    (void)d;
    return 1;
}

int pare_dist_next(struct pare_dist *d, int64_t *i, struct pare_err *err)
{
    *i = 0;
    return pare_dist_barrier(d, err);
}

int pare_dist_rewind(struct pare_dist *d, struct pare_err *err)
{
    return pare_dist_barrier(d, err);
}

int pare_dist_gather(struct pare_dist *d, void *bytes, size_t n, struct pare_err *err)
{
    (void)bytes;
    (void)n;
    return pare_dist_barrier(d, err);
}
