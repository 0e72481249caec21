/* npy.h - NumPy's .npy format: one tensor in a file. */
#ifndef PARE_IO_NPY_H
#define PARE_IO_NPY_H

#include "file.h"

/* Parse a .npy file, format 1 to 3.  Arrays in Fortran order are converted to row-major; big-endian
 * arrays and types other than numbers and booleans are errors.  t->data is in the arena. */
int pare_npy_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_tensor *t,
                   struct pare_err *err);

/* Type and shape from the first bytes of a .npy file, without the elements. */
struct pare_npy_layout {
    size_t start, bytes; /* of the elements */
    bool fortran;        /* they are in column-major order */
};
int pare_npy_header(const void *bytes, size_t len, struct pare_tensor *t, struct pare_npy_layout *l,
                    struct pare_err *err);

/* The bytes of a .npy file.  NumPy has no bfloat16: it is written as float32. */
int pare_npy_pack(struct pare_arena *a, const struct pare_tensor *t, const void **bytes,
                  size_t *len, struct pare_err *err);

/* The header and the elements of a .npy file; the elements are t's own memory unless converted. */
int pare_npy_parts(struct pare_arena *a, const struct pare_tensor *t, struct pare_bytes part[2],
                   struct pare_err *err);

int pare_npy_read(struct pare_arena *a, const char *path, struct pare_tensor *t,
                  struct pare_err *err);
int pare_npy_write(const char *path, const struct pare_tensor *t, struct pare_err *err);

#endif
