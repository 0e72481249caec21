/* resource_limits.c - limits of memory and time: --max-memory and --timeout.
 *
 * base/arena.c counts the memory of the library itself; memory of other libraries is limited by the
 * system's RLIMIT_DATA, which is set a little higher.  A thread watches the time: the command may
 * be anywhere, also in a library that cannot be interrupted, so after the timeout the process exits
 * (crash.c).
 */
#include "resource_limits.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "crash.h"
#include "../base/arena.h"

#define GRACE 10      /* seconds for training to write its checkpoint */
#define POLL 20000000 /* nanoseconds */
#define FOREVER 1e9   /* seconds */

#define LIBRARY_BYTES ((size_t)256 << 20) /* for other libraries, in addition to --max-memory */
#define THREADS 32                        /* whose stacks are allowed for */
#define MOST_STACK ((rlim_t)8 << 20)

/* State shared by the watching thread and main(). */
enum state { RUNNING, STOPPING, OVER, DONE };

static struct {
    _Atomic int state;
    volatile sig_atomic_t *_Atomic training;
    struct timespec end;
    double seconds;
} watch;

/* ---- memory -------------------------------------------------------------------------------- */

/* "512M", "1.5G", "1000000". */
static int parse_size(const char *text, size_t *bytes, struct pare_err *err)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;

    if (unit) {
        v = ldexp(v, 10 * (int)(unit - units + 1));
        end += end[1] == 'B' || end[1] == 'b' ? 2 : 1;
    }
    if (end == text || *end || !(v >= 0 && v < 0x1p62) || *text == '-')
        return pare_fail(err, PARE_ECONFIG,
                         "option 'max-memory' is '%.64s', must be a size such as 512M or 8G", text);
    *bytes = (size_t)v;
    return 0;
}

static size_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}

/* Set RLIMIT_DATA for oneDNN, image decoders and plugins.  It limits private writable memory, not
 * mapped models; it includes the stacks of threads, whether used or not, so it allows for many. */
static void limit_libraries(size_t bytes)
{
#if !defined(PARE_ASAN) && !defined(PARE_TSAN) /* sanitizers reserve terabytes */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    FILE *f = bytes ? fopen("/proc/self/statm", "r") : NULL;
    struct rlimit r, stack;
    size_t now = 0;

    if (f && fscanf(f, "%*u %*u %*u %*u %*u %zu", &now) == 1 && !getrlimit(RLIMIT_DATA, &r) &&
        !getrlimit(RLIMIT_STACK, &stack)) {
        rlim_t each = stack.rlim_cur < MOST_STACK ? stack.rlim_cur : MOST_STACK;
        rlim_t all = (rlim_t)now * page + bytes + LIBRARY_BYTES + THREADS * each;

        if (r.rlim_cur == RLIM_INFINITY || all < r.rlim_cur) {
            r.rlim_cur = all;
            (void)setrlimit(RLIMIT_DATA, &r); /* if it fails, only our own memory is limited */
        }
    }
    if (f)
        fclose(f);
#else
    (void)bytes;
#endif
}

const char *pare_resource_limits_note(const struct pare_resource_limits *g, int code, char *buf,
                                      size_t size)
{
    char text[PARE_NUM_TEXT];

    buf[0] = '\0';
    if (watch.state == STOPPING || watch.state == OVER)
        snprintf(buf, size, " (--timeout of %g seconds reached)", watch.seconds);
    else if (code == PARE_ENOMEM && (g->max_memory || pare_memory_refused()))
        snprintf(buf, size, " (%s %s)", g->max_memory ? "--max-memory is" : "this machine has",
                 g->max_memory ? g->max_memory
                               : pare_bytes_text((double)machine_memory(), text, sizeof(text)));
    return buf;
}

/* ---- time ---------------------------------------------------------------------------------- */

static void end_process(void)
{
    char text[128];

    snprintf(text, sizeof(text),
             "pare: --timeout of %g seconds reached; unfinished files were removed\n",
             watch.seconds);
    pare_crash_exit(text);
}

/* Ask training to stop; false: it did not finish within the grace period. */
static bool wait_for_training(volatile sig_atomic_t *stop)
{
    const struct timespec poll = { 0, POLL };

    *stop = 1;
    for (int64_t i = 0; i < (int64_t)GRACE * 1000000000 / POLL; i++) {
        if (watch.state == DONE)
            return true;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &poll, NULL);
    }
    return false;
}

static void *watch_clock(void *unused)
{
    volatile sig_atomic_t *stop;
    int from = RUNNING;

    (void)unused;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &watch.end, NULL) == EINTR)
        ;
    stop = watch.training;
    if (stop) {
        if (!atomic_compare_exchange_strong(&watch.state, &from, STOPPING) ||
            wait_for_training(stop))
            return NULL;
        from = STOPPING;
    }
    if (atomic_compare_exchange_strong(&watch.state, &from, OVER))
        end_process();
    return NULL;
}

void pare_resource_limits_training(volatile sig_atomic_t *stop)
{
    watch.training = stop;
}

void pare_resource_limits_end(void)
{
    int from = watch.state;

    while (from != OVER && !atomic_compare_exchange_weak(&watch.state, &from, DONE))
        ;
    while (from == OVER)
        pause(); /* the watching thread is about to exit the process */
}

static int start_watch(double seconds, struct pare_err *err)
{
    pthread_t thread;
    double whole = floor(seconds);
    int rc;

    watch.seconds = seconds;
    clock_gettime(CLOCK_MONOTONIC, &watch.end);
    watch.end.tv_sec += (time_t)whole;
    watch.end.tv_nsec += (long)((seconds - whole) * 1e9);
    if (watch.end.tv_nsec >= 1000000000) {
        watch.end.tv_nsec -= 1000000000;
        watch.end.tv_sec++;
    }
    rc = pthread_create(&thread, NULL, watch_clock, NULL);
    if (rc)
        return pare_fail(err, PARE_EIO, "--timeout: cannot create a thread: %s", strerror(rc));
    pthread_detach(thread);
    return 0;
}

int pare_resource_limits_start(const struct pare_resource_limits *g, struct pare_err *err)
{
    size_t bytes = machine_memory();

    if (g->max_memory)
        PARE_TRY(parse_size(g->max_memory, &bytes, err));
    pare_memory_limit(bytes);
    if (g->max_memory)
        limit_libraries(bytes);
    pare_crash_handlers_install(g->max_memory);
    return g->timeout > 0 && g->timeout < FOREVER ? start_watch(g->timeout, err) : 0;
}
