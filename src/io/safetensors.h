/* safetensors.h - the .safetensors format: named tensors and metadata in one file.
 *
 * The file is a little-endian 64-bit length, a JSON object of that length, and the tensors' bytes
 * without gaps.  The object has {"dtype", "shape", "data_offsets"} for each name, and under
 * "__metadata__" an object of strings.
 */
#ifndef PARE_IO_SAFETENSORS_H
#define PARE_IO_SAFETENSORS_H

#include "npz.h"

struct pare_meta {
    const char *key, *value; /* UTF-8 */
};

struct pare_safetensors {
    struct pare_named *tensor;
    int n_tensors;
    struct pare_meta *meta;
    int n_meta;
};

/* Read all tensors, strictly: every offset, shape and length must agree, every byte must belong
 * to exactly one tensor.  Lists and tensors are in the arena, tensors in the order of the
 * header. */
int pare_safetensors_read(struct pare_arena *a, const char *path, struct pare_safetensors *st,
                          struct pare_err *err);

/* The same from memory, which must outlive the tensors: aligned ones are views. */
int pare_safetensors_parse(struct pare_arena *a, const void *bytes, size_t len,
                           struct pare_safetensors *st, struct pare_err *err);

/* Write atomically (file.h).  The same tensors in the same order give the same bytes. */
int pare_safetensors_write(const char *path, const struct pare_safetensors *st,
                           struct pare_err *err);

#endif
