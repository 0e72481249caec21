/* tensor_file.h - files of named tensors, whatever their format: PyTorch's, safetensors, numpy's.
 *
 * A model's state and its masks are lists of named tensors; which of the formats a file has is
 * nobody else's business.  Element types stay as they are, but numpy has no bfloat16: there it
 * becomes float32.
 */
#ifndef PARE_IO_TENSOR_FILE_H
#define PARE_IO_TENSOR_FILE_H

#include "npz.h"

/* Does a name end in one of .pth, .pt, .bin, .safetensors, .npz?  Asked before long work whose
 * result is to be written there. */
int pare_tensor_file_check(const char *path, struct pare_err *err);

/* Is this a file of named tensors, by how it begins?  False when it cannot be read. */
bool pare_tensor_file_looks(const char *path);

/* Read all tensors, in the order of the file.  The format is told by the contents, not by the name.
 * List and tensors are in the arena. */
int pare_tensor_file_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                          struct pare_err *err);

/* Write them, in the format that the name says, as file.h says.  The same tensors give the same
 * bytes. */
int pare_tensor_file_write(const char *path, const struct pare_named *list, int n,
                           struct pare_err *err);

/* Masks: tensors "LAYER.weight" and "LAYER.bias", the layer's name being all before the last dot.
 * PyTorch's files have them as NNI does, {LAYER: {"weight": tensor, "bias": tensor or None}}; what
 * is None is not in the list.  Names of another kind are an error; shapes and values are not looked
 * at. */
int pare_masks_read(struct pare_arena *a, const char *path, struct pare_named **list, int *n,
                    struct pare_err *err);
int pare_masks_write(const char *path, const struct pare_named *list, int n, struct pare_err *err);

#endif
