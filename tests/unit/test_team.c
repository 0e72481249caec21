/* test_team.c - threads of a plan: every item once, nested loops, fork(), several teams at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/team.h"

enum { MANY = 4, ITEMS = 1000 };

struct counts {
    atomic_int times[ITEMS];
    atomic_int bad_thread;
    int threads;
};

static void count(void *arg, int64_t from, int64_t to, int thread)
{
    struct counts *c = arg;

    if (thread < 0 || thread >= c->threads)
        atomic_store(&c->bad_thread, 1);
    for (int64_t i = from; i < to; i++)
        atomic_fetch_add(&c->times[i], 1);
}

static bool each_once(int threads, int64_t n)
{
    struct counts c = { .threads = threads };

    pare_parallel(threads, n, count, &c);
    for (int64_t i = 0; i < ITEMS; i++)
        if (atomic_load(&c.times[i]) != (i < n))
            return false;
    return !atomic_load(&c.bad_thread);
}

static bool all_sizes(void)
{
    for (int64_t n = 0; n <= ITEMS; n += n < 20 ? 1 : 49)
        if (!each_once(MANY, n) || !each_once(2, n) || !each_once(1, n) || !each_once(9, n))
            return false;
    return true;
}

static void test_each_item_runs_once(void **state)
{
    struct pare_arena *a = pare_arena_new(0);
    struct pare_team *t = pare_team_new(a, MANY), *before;

    (void)state;
    assert_true(all_sizes()); /* OpenMP's threads */
    before = pare_team_enter(t);
    assert_int_equal(pare_team_threads(), MANY);
    for (int i = 0; i < 20; i++)
        assert_true(all_sizes());
    pare_team_leave(before);
    assert_int_equal(pare_team_threads(), 1);
    pare_team_stop(t);
    pare_arena_free(a);
}

static void nested(void *arg, int64_t from, int64_t to, int thread)
{
    (void)from, (void)to, (void)thread;
    if (!each_once(MANY, 100) || pare_team_threads() != 1)
        atomic_store((atomic_int *)arg, 1);
}

static void test_nested_loops_run_alone(void **state)
{
    struct pare_arena *a = pare_arena_new(0);
    struct pare_team *t = pare_team_new(a, MANY), *other = pare_team_new(a, 2), *before, *inner;
    atomic_int wrong = 0;

    (void)state;
    before = pare_team_enter(t);
    inner = pare_team_enter(other); /* the first team stays */
    assert_int_equal(pare_team_threads(), MANY);
    pare_parallel(MANY, 50, nested, &wrong);
    pare_team_leave(inner);
    pare_team_leave(before);
    assert_int_equal(atomic_load(&wrong), 0);
    pare_team_stop(t);
    pare_team_stop(other);
    pare_arena_free(a);
}

#ifndef PARE_TSAN
/* The child has none of the parent's threads. */
static void test_fork_starts_new_threads(void **state)
{
    struct pare_arena *a = pare_arena_new(0);
    struct pare_team *t = pare_team_new(a, MANY), *before = pare_team_enter(t);
    int status = 0;
    pid_t child;

    (void)state;
    assert_true(all_sizes());
    pare_team_leave(before);
    child = fork();
    if (!child) {
        bool ok;

        before = pare_team_enter(t);
        ok = all_sizes();
        pare_team_leave(before);
        pare_team_stop(t);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    before = pare_team_enter(t);
    assert_true(all_sizes());
    pare_team_leave(before);
    pare_team_stop(t);
    pare_arena_free(a);
}

#endif

static void *use_own_team(void *arg)
{
    struct pare_arena *a = pare_arena_new(0);

    (void)arg;
    for (int i = 0; i < 10; i++) {
        struct pare_team *t = pare_team_new(a, MANY), *before = pare_team_enter(t);
        bool ok = all_sizes();

        pare_team_leave(before);
        pare_team_stop(t);
        if (!ok)
            return a;
    }
    pare_arena_free(a);
    return NULL;
}

static void test_teams_at_the_same_time(void **state)
{
    pthread_t id[3];
    void *bad;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&id[i], NULL, use_own_team, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(id[i], &bad), 0);
        assert_null(bad);
    }
}

/* A thread that does not arrive does not delay the loop: the caller's items include those of the
 * sleeping thread. */
static void sleep_once(void *arg, int64_t from, int64_t to, int thread)
{
    atomic_int *done = arg;

    if (thread)
        usleep(20000);
    atomic_fetch_add(&done[thread ? 1 : 0], (int)(to - from));
}

static void test_caller_takes_the_items_of_slow_threads(void **state)
{
    struct pare_arena *a = pare_arena_new(0);
    struct pare_team *t = pare_team_new(a, 2), *before = pare_team_enter(t);
    atomic_int done[2] = { 0, 0 };

    (void)state;
    for (int i = 0; i < 5; i++)
        pare_parallel(2, 64, sleep_once, done);
    pare_team_leave(before);
    pare_team_stop(t);
    assert_int_equal(atomic_load(&done[0]) + atomic_load(&done[1]), 5 * 64);
    assert_true(atomic_load(&done[0]) >= 5 * (64 - 8)); /* at most one piece of 8 is not its own */
    pare_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_item_runs_once),
        cmocka_unit_test(test_nested_loops_run_alone),
#ifndef PARE_TSAN /* which does not support threads after a fork() */
        cmocka_unit_test(test_fork_starts_new_threads),
#endif
        cmocka_unit_test(test_teams_at_the_same_time),
        cmocka_unit_test(test_caller_takes_the_items_of_slow_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
