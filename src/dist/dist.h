/* dist.h - several processes that work as one, each on its part of the data.
 *
 *     pare_dist_open(&d, err);                     NULL unless mpirun started several of us
 *     ... each process has its part of every batch, see pare_dist_batch ...
 *     pare_dist_merge(d, PARE_MERGE_SUM, PARE_F64, sum, n, err);
 *     pare_dist_close(d);
 *
 * NULL is a process that is alone: every function takes it, and then there is nothing to do.  What
 * merges, sends or compares is called by all processes, in the same order.  After an error the
 * others may wait for this one for ever: pare_dist_end_all() is the only way on.
 *
 * dist_mpi.c is the one file that knows MPI; a build without it has dist_none.c.
 */
#ifndef PARE_DIST_DIST_H
#define PARE_DIST_DIST_H

#include <pare/plugin.h>

struct pare_dist;

/* ---- the processes -------------------------------------------------------------------------- */

/* Join the others.  *to is NULL when this process was started alone, which costs nothing. */
int pare_dist_open(struct pare_dist **to, struct pare_err *err);
void pare_dist_close(struct pare_dist *d); /* waits for the others */

/* The number of this process before it has joined, as its environment has it; 0: alone or first. */
int pare_dist_env_rank(void);

int pare_dist_rank(const struct pare_dist *d);    /* 0 .. size - 1 */
int pare_dist_size(const struct pare_dist *d);    /* 1: alone */
int pare_dist_threads(const struct pare_dist *d); /* a fair part of this machine's; 0: all */

/* After an error: is it this process that says so?  What went wrong here mostly went wrong
 * everywhere, so the first process has a second's advantage, and only one gets true.  Then end all
 * processes with this exit code; who has not spoken leaves that to the one who has. */
bool pare_dist_speaks(struct pare_dist *d);
void pare_dist_end_all(struct pare_dist *d, int code);

/* For a while, merge nothing: this process alone does what the others do not. */
void pare_dist_alone(struct pare_dist *d, bool alone);

/* ---- numbers of all of them ------------------------------------------------------------------ */

/* data[i] becomes the sum, the least or the largest over all processes, bit for bit the same on
 * each.  PARE_F32, PARE_F64, PARE_I64, PARE_U8 (of the latter no sum). */
int pare_dist_merge(struct pare_dist *d, enum pare_merge how, enum pare_dtype dtype, void *data,
                    int64_t n, struct pare_err *err);

/* The same sum while this process does something else: start() any number of them in the same
 * order everywhere, poll() now and then, finish() before the first number is read. */
int pare_dist_start(struct pare_dist *d, enum pare_dtype dtype, void *data, int64_t n,
                    struct pare_err *err);
void pare_dist_poll(struct pare_dist *d);
int pare_dist_finish(struct pare_dist *d, struct pare_err *err);

/* What process 0 has; a point that nobody passes before all have come. */
int pare_dist_send(struct pare_dist *d, void *data, size_t bytes, struct pare_err *err);
int pare_dist_wait(struct pare_dist *d, struct pare_err *err);

/* The same where it may take long: who waits sleeps, and leaves its core to the others. */
int pare_dist_rest(struct pare_dist *d, struct pare_err *err);

/* Are these the same everywhere?  *which is the first hash that differs, or -1. */
uint64_t pare_dist_hash(const void *data, size_t bytes);
int pare_dist_same(struct pare_dist *d, const uint64_t *hash, int64_t n, int64_t *which,
                   struct pare_err *err);

/* ---- the batch at work ----------------------------------------------------------------------- */

/* This process has `own` of the `whole` items of the batch.  When there are fewer items than
 * processes some have none, and work on one of another's, which then does not count. */
void pare_dist_batch(struct pare_dist *d, int64_t own, int64_t whole);
double pare_dist_part(const struct pare_dist *d); /* own / whole; 1 when alone */

/* Merge what each process found in its part of the batch. */
int pare_dist_merge_batch(struct pare_dist *d, enum pare_merge how, enum pare_dtype dtype,
                          void *data, int64_t n, struct pare_err *err);

/* Means and variances of C channels, each over `count` numbers of this part, become those of the
 * whole batch, and so does count.  work has 2 * C + 1 elements. */
struct pare_moments {
    double *mean, *var, *work;
    int64_t C;
    double count;
};
int pare_dist_moments(struct pare_dist *d, struct pare_moments *m, struct pare_err *err);

/* ---- work that can be done anywhere ---------------------------------------------------------- */

/* Do things 0 .. n - 1, each in one process, whichever is free: fn(user, i, results + i * size).
 * Afterwards every process has all results.  results are zeroed here. */
struct pare_work {
    int64_t n;
    size_t size; /* of a result, in bytes */
    void *results;
    int (*fn)(void *user, int64_t i, void *result, struct pare_err *err);
    void *user;
};
int pare_dist_work(struct pare_dist *d, const struct pare_work *w, struct pare_err *err);

/* ---- for dist.c only: what dist_mpi.c does --------------------------------------------------- */

int pare_dist_next(struct pare_dist *d, int64_t *i, struct pare_err *err); /* the next thing */
int pare_dist_rewind(struct pare_dist *d, struct pare_err *err);           /* ... from 0 again */
int pare_dist_gather(struct pare_dist *d, void *bytes, size_t n, struct pare_err *err);

#endif
