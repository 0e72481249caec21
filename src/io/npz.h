/* npz.h - numpy's .npz: named tensors in a zip file. */
#ifndef PARE_IO_NPZ_H
#define PARE_IO_NPZ_H

#include <pare/pare.h>

struct pare_named {
    const char *name;
    struct pare_tensor t;
};

/* Read all of it.  An entry "x.npy" is named "x".  The list and its tensors are in the arena. */
int pare_npz_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                  struct pare_err *err);

/* Write them uncompressed, as numpy.savez does, and as file.h says.  The same tensors give the same
 * bytes. */
int pare_npz_write(const char *path, const struct pare_named *list, int n, struct pare_err *err);

#endif
