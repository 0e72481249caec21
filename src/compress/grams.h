/* grams.h - Gram matrices of layer inputs: the second moments that least squares and error-aware
 * rounding of weights need.
 *
 * A convolution or linear layer is y = W x for each position: rows of W are output channels, and x
 * is the window of a position unfolded (im2col, with zeros in the padding) or the vector of a
 * product.  Each group of a grouped convolution is a matrix of its own.
 *
 *     G = E[x x'],  m = E[x]      of the model as it is
 *     C = E[d x'],  m_d = E[d]    d: the same input in another model, mostly before compression
 *
 * The sums are in double, over this process's items, then over all processes.
 */
#ifndef PARE_COMPRESS_GRAMS_H
#define PARE_COMPRESS_GRAMS_H

#include "../data/data.h"
#include "../dist/dist.h"
#include "../graph/layer.h"
#include "../onnx/model.h"

struct pare_gram {
    const struct pare_layer_info *layer; /* of a graph with shapes */
    int64_t groups, rows, k;             /* the layer's matrices are (groups, rows, k) */
    double n;                            /* positions in the sums */
    double *g, *mean;                    /* (groups, k, k), symmetric; (groups, k) */
    double *diagonal;                    /* (groups, k), instead of g; NULL: not asked for */
    double *cross, *cross_mean;          /* C and m_d, as g and mean; NULL: not collected */
};

/* Where the inputs come from. */
struct pare_gram_source {
    const struct pare_model *model; /* its graph is run as it is, with fake-quant nodes */
    const struct pare_model *other; /* for C; NULL: none */
    struct pare_data *data;         /* shuffled and augmented as for training, the same each time */
    int64_t items;                  /* at most, in all processes */
    double flops;                   /* multiplications per layer and group; with more positions, a
                                     * fixed random subset of at least 64 per item; 0: all */
    int64_t enough;                 /* the same for more positions per input of a grouped layer; 0:
                                     * all */
    bool diagonal;                  /* only the diagonals of G, and m */
    struct pare_dist *dist;
    int threads; /* 0: all cores */
    pare_progress_fn *progress;
    void *user;
};

/* Sizes of a layer's matrices; false: it is not a convolution or a product whose inputs are along
 * the last axis, or its weight is not a plain matrix or filter. */
bool pare_gram_of(const struct pare_layer_info *layer, struct pare_gram *g);

size_t pare_gram_bytes(const struct pare_gram *g, bool cross);

/* The number of items that one of the models takes at a time; 0: any.  b: NULL or another model. */
int64_t pare_fixed_batch(const struct pare_model *a, const struct pare_model *b);

/* Run the data through the model, and compute the Grams of n layers; memory is from the arena. */
int pare_grams_collect(const struct pare_gram_source *s, struct pare_arena *a, struct pare_gram *g,
                       int n, struct pare_err *err);

#endif
