/* file.h - read whole files; write files atomically by rename. */
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

/* Memory for the contents of a file, not zeroed; NULL: no memory.  Large blocks use huge pages,
 * which are much cheaper to allocate. */
void *pare_file_block(struct pare_arena *a, size_t len);

int pare_file_read(struct pare_arena *a, const char *path, const void **data, size_t *len,
                   struct pare_err *err);

/* Read a file of at most `most` bytes. */
int pare_file_read_most(struct pare_arena *a, const char *path, size_t most, const void **data,
                        size_t *len, struct pare_err *err);

/* Read the first bytes of a file, at most `room`, to detect its format. */
struct pare_file_metadata {
    size_t size; /* bytes of the file */
    size_t head; /* bytes read */
};
int pare_file_look(const char *path, void *head, size_t room, struct pare_file_metadata *f,
                   struct pare_err *err);

/* Write a file that appears under its name only when it is complete: a temporary file in the
 * same folder is written, synced and renamed. */
int pare_file_write(const char *path, const void *data, size_t len, struct pare_err *err);

/* Write a file from several consecutive pieces. */
struct pare_bytes {
    const void *data;
    size_t len;
};
int pare_file_write_parts(const char *path, const struct pare_bytes *part, int n,
                          struct pare_err *err);

/* Sync the temporary file `tmp` and rename it. */
int pare_file_commit(const char *tmp, const char *path, struct pare_err *err);

#endif
