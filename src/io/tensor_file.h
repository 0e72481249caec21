/* tensor_file.h - files of named tensors, whatever their format: PyTorch's, safetensors, numpy's.
 *
 * A model's state and its masks are lists of named tensors; callers need not know the format.
 * Element types are preserved, except that NumPy has no bfloat16: it becomes float32.
 */
#ifndef PARE_IO_TENSOR_FILE_H
#define PARE_IO_TENSOR_FILE_H

#include "npz.h"

/* Check that a name ends in .pth, .pt, .bin, .safetensors or .npz, before long work whose result is
 * written to it. */
int pare_tensor_file_check(const char *path, struct pare_err *err);

/* Is this a file of named tensors, by its first bytes?  False if it cannot be read. */
bool pare_tensor_file_looks(const char *path);

/* Read all tensors, in the order of the file.  The format is detected from the contents, not the
 * name.  List and tensors are in the arena. */
int pare_tensor_file_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                          struct pare_err *err);

/* Write tensors atomically (file.h), in the format of the file name extension.  The same tensors
 * give the same bytes. */
int pare_tensor_file_write(const char *path, const struct pare_named *list, int n,
                           struct pare_err *err);

/* Masks: tensors "LAYER.weight" and "LAYER.bias", where the layer's name is everything before
 * the last dot. In PyTorch's files they have NNI's structure, {LAYER: {"weight": tensor, "bias":
 * tensor or None}}; None is omitted from the list.  Other names are an error; shapes and values
 * are not checked. */
int pare_masks_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                    struct pare_err *err);
int pare_masks_write(const char *path, const struct pare_named *list, int n, struct pare_err *err);

#endif
