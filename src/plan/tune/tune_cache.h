/* tune_cache.h - which kernel runs a layer: lists of it, and the files that keep them.
 *
 * A file has a line for each choice, the kernel's name, a tab, and what it is the choice for
 * (tune_key.c), and lines that start with # for people.  Of two lines for the same the last counts.
 */
#ifndef PARE_PLAN_TUNE_TUNE_CACHE_H
#define PARE_PLAN_TUNE_TUNE_CACHE_H

#include "../../base/arena.h"
#include "../../base/map.h"

struct pare_tune_cache {
    struct pare_arena *arena; /* what the texts are in */
    struct pare_choice {
        const char *key, *kernel;
    } * *item;
    int n, cap;
    struct pare_map keys;
};

/* The kernel that was chosen, or NULL. */
const char *pare_tune_cache_get(const struct pare_tune_cache *c, const char *key);

int pare_tune_cache_set(struct pare_tune_cache *c, const char *key, const char *kernel,
                        struct pare_err *err);

/* Add those of a file.  One that is not there has none.  When `strict`, what cannot be read or
 * understood is an error; else it is left out. */
int pare_tune_cache_read(struct pare_tune_cache *c, const char *path, bool strict,
                         struct pare_err *err);

/* Add these to a file, which others may do at the same time: it is always whole, but somebody's
 * choices may get lost. */
int pare_tune_cache_save(const struct pare_tune_cache *c, const char *path, bool strict,
                         struct pare_err *err);

/* The file of this folder that has the choices for this machine and these kernels; the folder is
 * made when `make`.  NULL when it cannot be, or there is no memory. */
const char *pare_tune_cache_file(struct pare_arena *a, const char *folder, bool make);

#endif
