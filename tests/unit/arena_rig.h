/* arena_rig.h - fixture for tests that need only an arena and an error. */
#ifndef PARE_TESTS_ARENA_RIG_H
#define PARE_TESTS_ARENA_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"

static struct pare_arena *arena;
static struct pare_err err;

static inline int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 12);
    return arena ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

#endif
