/* dist.h - several processes that share one job, each with its part of the data (MPI).
 *
 *     pare_dist_open(&d, err);                     NULL unless mpirun started several processes
 *     ... each process has its part of every batch, see pare_dist_batch ...
 *     pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, sum, n, err);
 *     pare_dist_close(d);
 *
 * NULL is a single process: every function accepts it and does nothing.  Collective functions
 * (merge, broadcast, barrier, compare) must be called by all processes in the same order.  After an
 * error in one process the others may wait for it forever: call pare_dist_end_all().
 *
 * dist_mpi.c is the only file that uses MPI; a build without MPI has dist_none.c.
 */
#ifndef PARE_DIST_DIST_H
#define PARE_DIST_DIST_H

#include <pare/plugin.h>

struct pare_dist;

/* ---- processes ------------------------------------------------------------------------------ */

/* Join the other processes.  *to is NULL if this process was started alone; MPI is then not
 * initialized. */
int pare_dist_open(struct pare_dist **to, struct pare_err *err);
void pare_dist_close(struct pare_dist *d); /* waits for the others */

/* The rank of this process before pare_dist_open(), from the environment; 0: alone or first. */
int pare_dist_env_rank(void);

int pare_dist_rank(const struct pare_dist *d); /* 0 .. size - 1 */
int pare_dist_size(const struct pare_dist *d); /* 1: alone */
int pare_dist_threads(
    const struct pare_dist *d); /* this process's share of the machine's cores; 0: all */

/* After an error: should this process report it?  The same error mostly occurs in all processes, so
 * exactly one of them gets true; rank 0 has an advantage of one second.  Then end all processes
 * with this exit code; the others wait for the process that reports. */
bool pare_dist_reports(struct pare_dist *d);
void pare_dist_end_all(struct pare_dist *d, int code);

/* Merge nothing until it is called with false: only this process runs the code between. */
void pare_dist_suspend(struct pare_dist *d, bool alone);

/* ---- collective operations ------------------------------------------------------------------- */

/* All-reduce: data[i] becomes the sum, minimum or maximum over all processes, bit for bit the same
 * in each.  PARE_F32, PARE_F64, PARE_I64, PARE_U8 (no sums of PARE_U8). */
int pare_dist_merge(struct pare_dist *d, enum pare_merge how, enum pare_dtype dtype, void *data,
                    int64_t n, struct pare_err *err);

/* Non-blocking sums: start() any number of them in the same order in all processes, poll() now and
 * then, finish() before reading the results. */
int pare_dist_start(struct pare_dist *d, enum pare_dtype dtype, void *data, int64_t n,
                    struct pare_err *err);
void pare_dist_poll(struct pare_dist *d);
int pare_dist_finish(struct pare_dist *d, struct pare_err *err);

/* Copy data from rank 0 to all processes; wait for all processes. */
int pare_dist_broadcast(struct pare_dist *d, void *data, size_t bytes, struct pare_err *err);
int pare_dist_barrier(struct pare_dist *d, struct pare_err *err);

/* The same for long waits: the process sleeps and leaves its core to the others. */
int pare_dist_idle_barrier(struct pare_dist *d, struct pare_err *err);

/* Are the hashes the same in all processes?  *which: index of the first that differs, or -1. */
uint64_t pare_dist_hash(const void *data, size_t bytes);
int pare_dist_same(struct pare_dist *d, const uint64_t *hash, int64_t n, int64_t *which,
                   struct pare_err *err);

/* ---- the current batch ----------------------------------------------------------------------- */

/* This process has `own` of the `whole` items of the batch.  If there are fewer items than
 * processes, some have none; they compute an item of another process, which does not count. */
void pare_dist_batch(struct pare_dist *d, int64_t own, int64_t whole);
double pare_dist_part(const struct pare_dist *d); /* own / whole; 1 if alone */

/* Merge results of this process's part of the batch. */
int pare_dist_merge_batch(struct pare_dist *d, enum pare_merge how, enum pare_dtype dtype,
                          void *data, int64_t n, struct pare_err *err);

/* Means and variances of C channels over the `count` elements of this part become those of the
 * whole batch, and so does count.  work has 2 * C + 1 elements. */
struct pare_moments {
    double *mean, *var, *work;
    int64_t C;
    double count;
};
int pare_dist_moments(struct pare_dist *d, struct pare_moments *m, struct pare_err *err);

/* ---- work distribution ----------------------------------------------------------------------- */

/* Call fn(user, i, results + i * size) for i = 0 .. n - 1, each in whichever process is free.
 * Afterward every process has all results.  results are zeroed first. */
struct pare_work {
    int64_t n;
    size_t size; /* of a result, in bytes */
    void *results;
    int (*fn)(void *user, int64_t i, void *result, struct pare_err *err);
    void *user;
};
int pare_dist_work(struct pare_dist *d, const struct pare_work *w, struct pare_err *err);

/* ---- implemented by dist_mpi.c for dist.c ---------------------------------------------------- */

int pare_dist_next(struct pare_dist *d, int64_t *i, struct pare_err *err); /* the next index */
int pare_dist_rewind(struct pare_dist *d, struct pare_err *err);           /* start from 0 again */
int pare_dist_gather(struct pare_dist *d, void *bytes, size_t n, struct pare_err *err);

#endif
