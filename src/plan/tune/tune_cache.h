/* tune_cache.h - lists of kernel choices, and the files that store them.
 *
 * A file has a line for each choice: the kernel's name, a tab, and the key of the layer
 * (tune_key.c). Lines that start with # are comments.  Of two lines with the same key the last one
 * counts.
 */
#ifndef PARE_PLAN_TUNE_TUNE_CACHE_H
#define PARE_PLAN_TUNE_TUNE_CACHE_H

#include "../../base/arena.h"
#include "../../base/map.h"

struct pare_tune_cache {
    struct pare_arena *arena; /* owns the texts */
    struct pare_choice {
        const char *key, *kernel;
    } * *item;
    int n, cap;
    struct pare_map keys;
};

/* The chosen kernel, or NULL. */
const char *pare_tune_cache_get(const struct pare_tune_cache *c, const char *key);

int pare_tune_cache_set(struct pare_tune_cache *c, const char *key, const char *kernel,
                        struct pare_err *err);

/* Add the lines of a file; a missing file has none.  If `strict`, lines that cannot be read are
 * errors; otherwise they are skipped. */
int pare_tune_cache_read(struct pare_tune_cache *c, const char *path, bool strict,
                         struct pare_err *err);

/* Merge these lines into a file.  Readers always see a complete file, but lines that another
 * process writes at the same time may be lost. */
int pare_tune_cache_save(const struct pare_tune_cache *c, const char *path, bool strict,
                         struct pare_err *err);

/* The file in this folder for this machine and the kernels of `build` (pare_kernels_hash); `make`:
 * create the folder.  NULL: out of memory. */
const char *pare_tune_cache_file(struct pare_arena *a, const char *folder, const char *build,
                                 bool make);

#endif
