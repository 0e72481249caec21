/* pth.h - PyTorch's files: what torch.save writes, as named tensors.
 *
 * The file is a zip archive with one folder: data.pkl, a pickle of dicts, lists and tensors (see
 * pickle.h), and data/<key>, the elements of each storage, stored as they are.  Nothing in it is
 * executed.
 */
#ifndef PARE_IO_PTH_H
#define PARE_IO_PTH_H

#include "npz.h"

struct pare_pth {
    struct pare_named *tensor; /* in the order of the file */
    int n_tensors;
    const char **none; /* names of what is there but None: the mask of a bias that is not masked */
    int n_none;
};

/* Read all tensors.  Nested dicts give dotted names: {"conv1": {"weight": t}} is "conv1.weight";
 * numbers and texts beside them are left out.  When the file is a dict with a dict "state_dict" or
 * "model_state_dict" in it, only that is read, and without the prefix.  Element types stay as they
 * are; other strides than row-major ones are made so.  Tensors that share a storage in the file
 * share memory here. */
int pare_pth_read(struct pare_arena *a, const char *path, struct pare_pth *p, struct pare_err *err);

/* The same from memory, which may go when this returns. */
int pare_pth_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_pth *p,
                   struct pare_err *err);

/* Whether a zip file is one of PyTorch's, by what it contains. */
bool pare_pth_looks(const char *path);

/* Write a state dict: an OrderedDict of tensors under their names as they are. */
int pare_pth_write(const char *path, const struct pare_named *list, int n, struct pare_err *err);

/* Write masks as NNI has them: {layer: {"weight": tensor or None, "bias": tensor or None}}, from
 * names "layer.weight" and "layer.bias"; the layer is what stands before the last dot.
 *
 * Both are written as file.h says, uncompressed and aligned to 64 bytes so that PyTorch can map
 * them.  The same tensors give the same bytes. */
int pare_pth_write_masks(const char *path, const struct pare_named *list, int n,
                         struct pare_err *err);

#endif
