/* npy.h - numpy's .npy: one tensor in a file. */
#ifndef PARE_IO_NPY_H
#define PARE_IO_NPY_H

#include "file.h"

/* Read the bytes of a .npy file, format 1 to 3.  Arrays in Fortran order are turned into
 * row-major ones; other byte orders and other types than numbers and booleans are refused.
 * t->data is taken from the arena. */
int pare_npy_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_tensor *t,
                   struct pare_err *err);

/* The bytes of a .npy file.  numpy has no bfloat16: it is written as float32. */
int pare_npy_pack(struct pare_arena *a, const struct pare_tensor *t, const void **bytes,
                  size_t *len, struct pare_err *err);

/* The same as header and elements; the latter are t's own unless they had to be converted. */
int pare_npy_parts(struct pare_arena *a, const struct pare_tensor *t, struct pare_bytes part[2],
                   struct pare_err *err);

int pare_npy_read(struct pare_arena *a, const char *path, struct pare_tensor *t,
                  struct pare_err *err);
int pare_npy_write(const char *path, const struct pare_tensor *t, struct pare_err *err);

#endif
