/* pth.h - PyTorch's .pth files, as torch.save writes them: named tensors.
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
    const char **none; /* names of members that are None: masks of biases that are not masked */
    int n_none;
};

/* Read all tensors.  Nested dicts give dotted names: {"conv1": {"weight": t}} is "conv1.weight";
 * numbers and strings are ignored.  If the file is a dict with a member "state_dict" or
 * "model_state_dict", only that member is read, without the prefix.  Element types are
 * preserved; strides are converted to row-major. Tensors that share a storage in the file share
 * memory. */
int pare_pth_read(struct pare_arena *a, const char *path, struct pare_pth *p, struct pare_err *err);

/* The same from memory, which is not needed afterward. */
int pare_pth_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_pth *p,
                   struct pare_err *err);

/* Is a zip archive a PyTorch file, by its entries? */
int pare_pth_looks(const char *path, bool *found, struct pare_err *err);

/* Write a state dict: an OrderedDict from names to tensors. */
int pare_pth_write(const char *path, const struct pare_named *list, int n, struct pare_err *err);

/* Write masks in NNI's structure: {layer: {"weight": tensor or None, "bias": tensor or None}},
 * from names "layer.weight" and "layer.bias"; the layer is everything before the last dot.
 *
 * Both are written atomically (file.h), uncompressed and aligned to 64 bytes so that PyTorch can
 * map them. The same tensors give the same bytes. */
int pare_pth_write_masks(const char *path, const struct pare_named *list, int n,
                         struct pare_err *err);

#endif
