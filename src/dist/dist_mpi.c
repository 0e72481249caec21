/* dist_mpi.c - processes over MPI; the only file that includes <mpi.h>.
 *
 * Non-blocking sums have a communicator of their own, so that only their own order must be the same
 * in all processes, not their position among other operations.
 */
#include <limits.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <mpi.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../base/arena.h"
#include "dist.h"

#define PENDING 64
#define REPORT_TIME 10 /* seconds that the reporting process has to end the others */
#define NAP 0.001
#define PIECE ((int64_t)1 << 26) /* elements of one call: counts are ints */

enum { NEXT, REPORTS, COUNTERS }; /* the next index of work; processes that wanted to report */

struct pare_dist {
    struct pare_arena *arena;
    MPI_Comm main, background; /* blocking; non-blocking operations */
    MPI_Win window;            /* counters of rank 0 */
    int64_t *counter;
    int rank, size, local; /* local: processes on this machine */
    int64_t own, whole;    /* of the current batch */
    bool alone, silent;
    MPI_Request pending[PENDING];
    int n_pending;
};

static int fail(int rc, const char *what, struct pare_err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;

    if (rc == MPI_SUCCESS)
        return 0;
    MPI_Error_string(rc, text, &len);
    return pare_fail(err, PARE_EIO, "MPI: cannot %s: %.300s", what, text);
}

/* ---- processes ------------------------------------------------------------------------------- */

static const char *env(const char *const *names)
{
    const char *s = NULL;

    for (; *names && !s; names++)
        s = getenv(*names);
    return s;
}

static int env_number(const char *const *names, int otherwise)
{
    const char *s = env(names);

    return s ? (int)strtol(s, NULL, 10) : otherwise;
}

int pare_dist_env_rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL };

    return env_number(names, 0);
}

/* MPI_Init takes a third of a second, so a process that was started alone skips it. */
static bool with_others(void)
{
    static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL };
    static const char *const ranks[] = { "PMIX_RANK", NULL };

    return env_number(sizes, env(ranks) ? 2 : 1) > 1;
}

static int count_local(struct pare_dist *d, struct pare_err *err)
{
    MPI_Comm here;

    PARE_TRY(fail(MPI_Comm_split_type(d->main, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
                  "find the processes of each machine", err));
    MPI_Comm_size(here, &d->local);
    MPI_Comm_free(&here);
    return 0;
}

/* Open MPI allocates a buffer for each sum.  Keep freed memory in the process: returning a model's
 * gradients to the system in every step took 5 % of resnet18-cifar's step. */
static void keep_memory(void)
{
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the largest value that every version accepts */
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

static int join(struct pare_dist *d, struct pare_err *err)
{
    MPI_Aint bytes = 0;
    int given;

    keep_memory();
    PARE_TRY(fail(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given), "start", err));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    PARE_TRY(fail(MPI_Comm_dup(MPI_COMM_WORLD, &d->main), "start", err));
    PARE_TRY(fail(MPI_Comm_dup(MPI_COMM_WORLD, &d->background), "start", err));
    MPI_Comm_rank(d->main, &d->rank);
    MPI_Comm_size(d->main, &d->size);
    bytes = d->rank ? 0 : (MPI_Aint)(COUNTERS * sizeof(*d->counter));
    PARE_TRY(fail(MPI_Win_allocate(bytes, sizeof(*d->counter), MPI_INFO_NULL, d->main,
                                   (void *)&d->counter, &d->window),
                  "share a counter", err));
    for (int i = 0; i < COUNTERS && !d->rank; i++)
        d->counter[i] = 0;
    return count_local(d, err); /* collective: no process returns before the counters are 0 */
}

int pare_dist_open(struct pare_dist **to, struct pare_err *err)
{
    struct pare_arena *a;
    struct pare_dist *d;

    *to = NULL;
    if (!with_others())
        return 0;
    a = pare_arena_new(1 << 12);
    d = a ? pare_alloc(a, 1, sizeof(*d)) : NULL;
    if (!d) {
        pare_arena_free(a);
        return pare_no_memory(err, "to join the other processes");
    }
    d->arena = a;
    d->window = MPI_WIN_NULL;
    *to = d;
    return join(d, err);
}

void pare_dist_close(struct pare_dist *d)
{
    if (!d)
        return;
    MPI_Win_free(&d->window);
    MPI_Comm_free(&d->main);
    MPI_Comm_free(&d->background);
    MPI_Finalize();
    pare_arena_free(d->arena);
}

int pare_dist_rank(const struct pare_dist *d)
{
    return d ? d->rank : 0;
}

int pare_dist_size(const struct pare_dist *d)
{
    return d ? d->size : 1;
}

/* A process that is bound to some cores uses those. */
int pare_dist_threads(const struct pare_dist *d)
{
    int cores = omp_get_num_procs();

    if (!d)
        return 0;
    if (cores < (int)sysconf(_SC_NPROCESSORS_ONLN))
        return cores;
    return cores > d->local ? cores / d->local : 1;
}

static int add_one(struct pare_dist *d, int which, int64_t *before)
{
    const int64_t one = 1;
    int rc = MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, d->window);

    if (rc == MPI_SUCCESS)
        rc = MPI_Fetch_and_op(&one, before, MPI_INT64_T, 0, which, MPI_SUM, d->window);
    return rc == MPI_SUCCESS ? MPI_Win_unlock(0, d->window) : rc;
}

static void pause_for(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds };

    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

bool pare_dist_reports(struct pare_dist *d)
{
    int64_t before = 0;

    if (!d)
        return true;
    if (d->rank)
        pause_for(1);
    d->silent = d->window != MPI_WIN_NULL && add_one(d, REPORTS, &before) == MPI_SUCCESS && before;
    return !d->silent;
}

void pare_dist_end_all(struct pare_dist *d, int code)
{
    if (!d)
        return;
    if (d->silent)
        pause_for(REPORT_TIME);
    MPI_Abort(MPI_COMM_WORLD, code);
}

void pare_dist_suspend(struct pare_dist *d, bool alone)
{
    if (d)
        d->alone = alone;
}

/* ---- collective operations ------------------------------------------------------------------- */

static MPI_Datatype type_of(enum pare_dtype dtype)
{
    return dtype == PARE_F32   ? MPI_FLOAT
           : dtype == PARE_F64 ? MPI_DOUBLE
           : dtype == PARE_I64 ? MPI_INT64_T
                               : MPI_UINT8_T;
}

static MPI_Op op_of(enum pare_merge how)
{
    return how == PARE_MERGE_MIN ? MPI_MIN : how == PARE_MERGE_MAX ? MPI_MAX : MPI_SUM;
}

static int check(enum pare_merge how, enum pare_dtype dtype, struct pare_err *err)
{
    if (how != PARE_MERGE_NONE && (dtype == PARE_F32 || dtype == PARE_F64 || dtype == PARE_I64 ||
                                   (dtype == PARE_U8 && how != PARE_MERGE_SUM)))
        return 0;
    return pare_fail(err, PARE_ECONFIG, "values of type %s cannot be merged this way",
                     pare_dtype_name(dtype));
}

int pare_dist_merge(struct pare_dist *d, enum pare_merge how, enum pare_dtype dtype, void *data,
                    int64_t n, struct pare_err *err)
{
    if (!d || d->alone)
        return 0;
    PARE_TRY(check(how, dtype, err));
    for (int64_t at = 0; at < n; at += PIECE)
        PARE_TRY(
            fail(MPI_Allreduce(MPI_IN_PLACE, (char *)data + (size_t)at * pare_dtype_size(dtype),
                               (int)(n - at < PIECE ? n - at : PIECE), type_of(dtype), op_of(how),
                               d->main),
                 "merge values", err));
    return 0;
}

int pare_dist_start(struct pare_dist *d, enum pare_dtype dtype, void *data, int64_t n,
                    struct pare_err *err)
{
    if (!d)
        return 0;
    PARE_TRY(check(PARE_MERGE_SUM, dtype, err));
    for (int64_t at = 0; at < n; at += PIECE) {
        if (d->n_pending == PENDING)
            PARE_TRY(pare_dist_finish(d, err));
        PARE_TRY(
            fail(MPI_Iallreduce(MPI_IN_PLACE, (char *)data + (size_t)at * pare_dtype_size(dtype),
                                (int)(n - at < PIECE ? n - at : PIECE), type_of(dtype), MPI_SUM,
                                d->background, &d->pending[d->n_pending]),
                 "merge values", err));
        d->n_pending++;
    }
    return 0;
}

/* MPI only makes progress while it is called. */
void pare_dist_poll(struct pare_dist *d)
{
    int done;

    if (d && d->n_pending)
        MPI_Testall(d->n_pending, d->pending, &done, MPI_STATUSES_IGNORE);
}

int pare_dist_finish(struct pare_dist *d, struct pare_err *err)
{
    int n = d ? d->n_pending : 0;

    if (!n)
        return 0;
    d->n_pending = 0;
    return fail(MPI_Waitall(n, d->pending, MPI_STATUSES_IGNORE), "merge values", err);
}

int pare_dist_broadcast(struct pare_dist *d, void *data, size_t bytes, struct pare_err *err)
{
    for (size_t at = 0; d && at < bytes; at += (size_t)PIECE) {
        size_t n = bytes - at < (size_t)PIECE ? bytes - at : (size_t)PIECE;

        PARE_TRY(fail(MPI_Bcast((char *)data + at, (int)n, MPI_BYTE, 0, d->main), "broadcast data",
                      err));
    }
    return 0;
}

int pare_dist_barrier(struct pare_dist *d, struct pare_err *err)
{
    return d ? fail(MPI_Barrier(d->main), "wait for the other processes", err) : 0;
}

/* MPI's own barrier is a busy loop. */
int pare_dist_idle_barrier(struct pare_dist *d, struct pare_err *err)
{
    MPI_Request all;
    int rc, done = 0;

    if (!d)
        return 0;
    rc = MPI_Ibarrier(d->main, &all);
    while (rc == MPI_SUCCESS && !done) {
        rc = MPI_Test(&all, &done, MPI_STATUS_IGNORE);
        if (!done)
            pause_for(NAP);
    }
    return fail(rc, "wait for the other processes", err);
}

/* The maximum of h and of ~h in one all-reduce: the latter is the complement of the minimum of h.
 */
int pare_dist_same(struct pare_dist *d, const uint64_t *hash, int64_t n, int64_t *which,
                   struct pare_err *err)
{
    struct pare_mark mark;
    uint64_t *both;
    int rc;

    *which = -1;
    if (!d || n < 1)
        return 0;
    if (n > INT_MAX / 2)
        return pare_fail(err, PARE_ELIMIT, "cannot compare %lld values: too many", (long long)n);
    mark = pare_mark(d->arena);
    both = pare_alloc_raw(d->arena, 2 * (size_t)n, sizeof(*both));
    if (!both)
        return pare_no_memory(err, "to compare with the other processes");
    for (int64_t i = 0; i < n; i++) {
        both[i] = hash[i];
        both[n + i] = ~hash[i];
    }
    rc = fail(MPI_Allreduce(MPI_IN_PLACE, both, (int)(2 * n), MPI_UINT64_T, MPI_MAX, d->main),
              "compare values", err);
    for (int64_t i = n - 1; i >= 0 && !rc; i--)
        if (both[i] != ~both[n + i])
            *which = i;
    pare_rewind(d->arena, mark);
    return rc;
}

/* ---- the current batch ----------------------------------------------------------------------- */

void pare_dist_batch(struct pare_dist *d, int64_t own, int64_t whole)
{
    if (d) {
        d->own = own;
        d->whole = whole;
    }
}

double pare_dist_part(const struct pare_dist *d)
{
    return d && d->whole > 0 ? (double)d->own / (double)d->whole : 1;
}

/* ---- work distribution ----------------------------------------------------------------------- */

int pare_dist_rewind(struct pare_dist *d, struct pare_err *err)
{
    int64_t zero = 0, old;

    PARE_TRY(pare_dist_barrier(d, err));
    if (!d->rank) {
        PARE_TRY(fail(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, d->window), "share work", err));
        MPI_Fetch_and_op(&zero, &old, MPI_INT64_T, 0, NEXT, MPI_REPLACE, d->window);
        PARE_TRY(fail(MPI_Win_unlock(0, d->window), "share work", err));
    }
    return pare_dist_barrier(d, err);
}

int pare_dist_next(struct pare_dist *d, int64_t *i, struct pare_err *err)
{
    return fail(add_one(d, NEXT, i), "share work", err);
}

/* Results that another process computed are zeros here. */
int pare_dist_gather(struct pare_dist *d, void *bytes, size_t n, struct pare_err *err)
{
    for (size_t at = 0; at < n; at += (size_t)PIECE)
        PARE_TRY(fail(MPI_Allreduce(MPI_IN_PLACE, (char *)bytes + at,
                                    (int)(n - at < (size_t)PIECE ? n - at : (size_t)PIECE),
                                    MPI_BYTE, MPI_BOR, d->main),
                      "gather results", err));
    return 0;
}
