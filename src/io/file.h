/* file.h - whole files in memory. */
#ifndef PARE_IO_FILE_H
#define PARE_IO_FILE_H

#include <pare/pare.h>

#include "../base/limits.h"

/* Does `s` end with `suffix`? */
bool pare_ends_with(const char *s, const char *suffix);

/* Do both exist, and are they the same file? */
bool pare_same_file(const char *a, const char *b);

/* The same, or the paths are equal, whether the file exists or not. */
bool pare_same_path(const char *a, const char *b);

/* Memory that is not zeroed, for the contents of a file; NULL when there is none.  A large block
 * asks for large pages, which the system gives at a fraction of the cost of small ones. */
void *pare_file_block(struct pare_arena *a, size_t len);

int pare_file_read(struct pare_arena *a, const char *path, const void **data, size_t *len,
                   struct pare_err *err);

/* The same of a file that may have at most `most` bytes. */
int pare_file_read_most(struct pare_arena *a, const char *path, size_t most, const void **data,
                        size_t *len, struct pare_err *err);

/* How a file begins, to tell what it is: up to `room` bytes of it. */
struct pare_file_metadata {
    size_t size; /* of the file */
    size_t head; /* bytes put in `head` */
};
int pare_file_look(const char *path, void *head, size_t room, struct pare_file_metadata *f,
                   struct pare_err *err);

/* A file that appears under its name only when all of it is there: written beside it, synced,
 * renamed. */
int pare_file_write(const char *path, const void *data, size_t len, struct pare_err *err);

/* The same from several pieces, one after the other. */
struct pare_bytes {
    const void *data;
    size_t len;
};
int pare_file_write_parts(const char *path, const struct pare_bytes *part, int n,
                          struct pare_err *err);

/* The last two steps of it: sync `tmp` and give it its name. */
int pare_file_commit(const char *tmp, const char *path, struct pare_err *err);

#endif
