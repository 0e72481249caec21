/* file_rig.h - fixture for tests that write files: a temporary folder that must be empty at the
 * end. */
#ifndef PARE_TESTS_FILE_RIG_H
#define PARE_TESTS_FILE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"

static struct pare_arena *arena;
static struct pare_err err;
static char dir[32], path[64];

static inline int make_folder(const char *name)
{
    strncpy(dir, "/tmp/pare_file_XXXXXX", sizeof(dir) - 1);
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    arena = pare_arena_new(1 << 12);
    return arena ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    unlink(path);
    return rmdir(dir); /* fails if a temporary file is left */
}

#endif
