/* team.c - a small pool of threads whose parallel loops end when the work is done.
 *
 * The word `gate` is the number of threads inside the loop, a bit that says whether more may join,
 * and the number of the loop.  A thread joins by incrementing the word while it is open, so the
 * caller, which closes it when no piece is left, waits only for threads that are computing a piece.
 * Nothing of a loop is read by a thread that has not joined.
 *
 * Waiting threads spin for SPIN_SECONDS, which bridges the single-threaded steps of a plan, then
 * sleep.  A sleeper increments `sleepers` before it looks at the gate for the last time, and the
 * caller looks at `sleepers` after it has changed the gate: one of them sees the other.
 */
#include "team.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "clock.h"

#define SPIN_SECONDS 50e-6
#define PIECES 4 /* of the share of each thread */
#define LINE 64  /* bytes of a cache line */

#define MEMBERS 0xfffu /* threads inside */
#define OPEN 0x1000u
#define LOOP 0x2000u /* one loop; the bits from here on count them */

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

/* The items that one thread begins with; any thread takes the next piece. */
struct share {
    _Alignas(LINE) atomic_llong next;
    int64_t end, piece;
};

struct worker {
    struct pare_team *team;
    pthread_t id;
    int index;
};

struct pare_team {
    _Alignas(LINE) atomic_uint gate;
    _Alignas(LINE) atomic_int sleepers; /* threads, and the caller, that may wait for `wake` */
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;

    /* The loop; written by the caller while the gate is closed and no thread is inside. */
    pare_range_fn *fn;
    void *arg;
    int active; /* threads that take part */
    struct share *share;

    int threads; /* most, with the caller */
    int running; /* workers that were started */
    pid_t pid;   /* of the process that started them; 0: none yet */
    struct worker *worker;
};

static _Thread_local struct pare_team *current;
static _Thread_local bool inside; /* the thread runs a piece of a loop */

/* ---- waiting ----------------------------------------------------------------------------- */

static bool joinable(const struct pare_team *t, unsigned gate, unsigned seen)
{
    return ((gate & OPEN) && gate / LOOP != seen) || atomic_load(&t->stop);
}

/* A worker waits for a loop that it has not seen (seen), the caller until the last thread has left
 * (leaving). */
static bool ready(struct pare_team *t, bool leaving, unsigned seen)
{
    unsigned gate = atomic_load(&t->gate);

    return leaving ? !(gate & MEMBERS) : joinable(t, gate, seen);
}

static void wait_for(struct pare_team *t, bool leaving, unsigned seen)
{
    double start = 0;

    for (int i = 1; !ready(t, leaving, seen); i++) {
        RELAX();
        if (i % 32)
            continue;
        if (i == 32)
            start = pare_now();
        else if (pare_now() - start > SPIN_SECONDS)
            break;
    }
    if (ready(t, leaving, seen))
        return;
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (!ready(t, leaving, seen))
        pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    pthread_mutex_unlock(&t->lock);
}

static void wake_sleepers(struct pare_team *t)
{
    if (!atomic_load(&t->sleepers))
        return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void take_pieces(struct pare_team *t, int me)
{
    for (int k = 0; k < t->active; k++) {
        struct share *s = &t->share[(me + k) % t->active];
        int64_t from;

        while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end &&
               (from = atomic_fetch_add_explicit(&s->next, s->piece, memory_order_relaxed)) <
                   s->end)
            t->fn(t->arg, from, from + s->piece < s->end ? from + s->piece : s->end, me);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pare_team *t = w->team;
    unsigned seen = 0;

    inside = true;
    omp_set_num_threads(1);
    for (;;) {
        unsigned gate;

        wait_for(t, false, seen);
        if (atomic_load(&t->stop))
            return NULL;
        gate = atomic_load(&t->gate);
        if (!joinable(t, gate, seen) || !atomic_compare_exchange_strong(&t->gate, &gate, gate + 1))
            continue;
        seen = gate / LOOP;
        if (w->index < t->active)
            take_pieces(t, w->index);
        if ((atomic_fetch_sub(&t->gate, 1) & (MEMBERS | OPEN)) == 1)
            wake_sleepers(t); /* the caller */
    }
}

static void start_workers(struct pare_team *t)
{
    sigset_t all, before;

    t->pid = getpid();
    t->running = 0;
    atomic_store(&t->gate, LOOP);
    atomic_store(&t->sleepers, 0);
    atomic_store(&t->stop, false);
    if (pthread_mutex_init(&t->lock, NULL))
        return;
    if (pthread_cond_init(&t->wake, NULL)) {
        pthread_mutex_destroy(&t->lock);
        return;
    }
    sigfillset(&all); /* signals are for the threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < t->threads; i++) {
        struct worker *w = &t->worker[i];

        *w = (struct worker){ .team = t, .index = i };
        if (pthread_create(&w->id, NULL, worker_main, w))
            break;
        t->running = i;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Give each of n threads its share, as OpenMP's static schedule does. */
static void divide(struct pare_team *t, int n, int64_t count)
{
    const int64_t size = count / n, more = count % n;
    int64_t from = 0;

    for (int k = 0; k < n; k++) {
        struct share *s = &t->share[k];
        int64_t items = size + (k < more);

        atomic_store_explicit(&s->next, from, memory_order_relaxed);
        s->end = from += items;
        s->piece = (items + PIECES - 1) / PIECES;
        if (!s->piece)
            s->piece = 1;
    }
}

static void run_loop(struct pare_team *t, int n, int64_t count, pare_range_fn *fn, void *arg)
{
    unsigned loop;

    t->fn = fn;
    t->arg = arg;
    t->active = n;
    divide(t, n, count);
    loop = atomic_load(&t->gate) / LOOP + 1;
    atomic_store(&t->gate, loop * LOOP | OPEN);
    wake_sleepers(t);
    take_pieces(t, 0);
    atomic_fetch_and(&t->gate, ~OPEN);
    wait_for(t, true, 0);
}

/* ---- interface --------------------------------------------------------------------------- */

static void with_openmp(int threads, int64_t count, pare_range_fn *fn, void *arg)
{
#pragma omp parallel num_threads(threads)
    {
        const int64_t n = omp_get_num_threads(), me = omp_get_thread_num();
        const int64_t size = count / n, more = count % n;
        const int64_t from = me * size + (me < more ? me : more), to = from + size + (me < more);

        if (from < to)
            fn(arg, from, to, (int)me);
    }
}

void pare_parallel(int threads, int64_t count, pare_range_fn *fn, void *arg)
{
    struct pare_team *t = current;
    int n = t && t->threads < threads ? t->threads : threads, most;

    if (n > count)
        n = (int)count;
    if (count < 1)
        return;
    if (n <= 1 || inside) {
        fn(arg, 0, count, 0);
        return;
    }
    if (!t) {
        with_openmp(n, count, fn, arg);
        return;
    }
    inside = true;
    most = omp_get_max_threads();
    omp_set_num_threads(1);
    run_loop(t, n, count, fn, arg);
    omp_set_num_threads(most);
    inside = false;
}

int pare_team_threads(void)
{
    return current && !inside ? current->threads : 1;
}

struct pare_team *pare_team_new(struct pare_arena *arena, int threads)
{
    struct pare_team *t;
    char *memory;

    if (threads > (int)MEMBERS)
        threads = MEMBERS;
    memory = pare_alloc(arena, sizeof(*t) + (size_t)threads * sizeof(struct share) + LINE, 1);
    if (!memory)
        return NULL;
    memory += LINE - (uintptr_t)memory % LINE;
    t = (struct pare_team *)(void *)memory;
    t->share = (struct share *)(void *)(memory + sizeof(*t));
    t->worker = pare_alloc(arena, (size_t)threads, sizeof(*t->worker));
    t->threads = threads;
    return t->worker ? t : NULL;
}

void pare_team_stop(struct pare_team *t)
{
    if (!t || t->pid != getpid()) /* threads do not survive a fork() */
        return;
    atomic_store(&t->stop, true);
    if (t->running)
        wake_sleepers(t);
    for (int i = 1; i <= t->running; i++)
        pthread_join(t->worker[i].id, NULL);
    t->running = 0;
    t->pid = 0;
}

struct pare_team *pare_team_enter(struct pare_team *t)
{
    struct pare_team *before = current;

    if (!before && t && !inside) {
        if (t->pid != getpid())
            start_workers(t);
        current = t->running ? t : NULL;
    }
    return before;
}

void pare_team_leave(struct pare_team *before)
{
    current = before;
}
