/* npz.h - NumPy's .npz format: named tensors in a zip archive. */
#ifndef PARE_IO_NPZ_H
#define PARE_IO_NPZ_H

#include <pare/pare.h>

struct pare_named {
    const char *name;
    struct pare_tensor t;
};

/* Read all tensors.  An entry "x.npy" is named "x".  The list and its tensors are in the arena. */
int pare_npz_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                  struct pare_err *err);

/* Write tensors uncompressed, as numpy.savez does, atomically (file.h).  The same tensors give
 * the same bytes. */
int pare_npz_write(const char *path, const struct pare_named *list, int n, struct pare_err *err);

#endif
