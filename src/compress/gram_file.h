/* gram_file.h - Gram matrices and Fisher information of layers in a .safetensors file.
 *
 * Tensors of float64: "gram/LAYER" (groups, k, k), "mean/LAYER" (groups, k), "count/LAYER" (1), and
 * where they were collected "cross/LAYER", "cross_mean/LAYER", "fisher/LAYER" (channels).  The
 * metadata has format = "pare grams 1".
 */
#ifndef PARE_COMPRESS_GRAM_FILE_H
#define PARE_COMPRESS_GRAM_FILE_H

#include "fisher.h"
#include "grams.h"

/* f: of the same layers, or NULL. */
int pare_grams_write(const char *path, const struct pare_gram *g, const struct pare_fisher *f,
                     int n, struct pare_err *err);

/* Read the matrices of n layers, of which `layer` and the sizes are set (pare_gram_of()); memory is
 * from the arena.  An error if a layer is missing, has other sizes, or if a matrix is not finite or
 * not symmetric.  f: read Fisher information too, or NULL. */
int pare_grams_read(struct pare_arena *a, const char *path, struct pare_gram *g,
                    struct pare_fisher *f, int n, struct pare_err *err);

/* The same from memory, which must outlive the matrices. */
int pare_grams_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_gram *g,
                     struct pare_fisher *f, int n, struct pare_err *err);

#endif
