/* pruner.h - write a pruner; included by <pare/plugin.h>.
 *
 * A pruner decides which weights become 0.  It writes masks: the library runs the model with
 * weight * mask, passes gradients through the product, and keeps the weights under the mask, so
 * that a later mask may bring them back.
 *
 * There are two kinds of pruners:
 *  - score(): one number for each unit (element, channel, ...) of a layer.  The library removes
 *    the units with the lowest scores, in all granularities and modes.
 *  - calc_mask(): the pruner writes the mask itself.
 *
 * A pruner is a struct pare_algorithm (<pare/algorithm.h>) that has a struct pare_pruner.  A
 * built-in one is src/prune/prune_NAME.c and a line in src/prune/pruners.def; it may share code
 * with others through the headers of src/prune/, but everything that it asks of a compression is
 * in these two public headers.
 */
#ifndef PARE_PRUNER_H
#define PARE_PRUNER_H

#include <pare/algorithm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layers -------------------------------------------------------------------------------- */

/* PARE_BOOL, of the weight's and the bias's shape: 1 keeps, 0 removes; all 1 at first.  The bias
 * mask is NULL if the layer has no bias.  With score() the library writes both. */
PARE_API struct pare_tensor *pare_layer_mask(struct pare_layer *l);
PARE_API struct pare_tensor *pare_layer_bias_mask(struct pare_layer *l);

/* The fraction of the weights to remove, in [0, 1).  config_sparsity() is the config's, or -1 if
 * it has none; sparsity() is the current goal, at first the config's, or 0.  aim() sets the goal
 * and makes a new mask due. */
PARE_API double pare_layer_sparsity(const struct pare_layer *l);
PARE_API double pare_layer_config_sparsity(const struct pare_layer *l);
PARE_API void pare_layer_aim(struct pare_layer *l, double sparsity);

/* The units that are kept or removed as a whole: the weight cut into blocks of `block` elements
 * along each axis, n = grid[0] * grid[1] * ... of them in row-major order.  An element is a block
 * of (1, 1, ...), an output channel of a convolution a block of (1, in, h, w). */
struct pare_units {
    int rank;
    int64_t block[PARE_MAX_RANK], grid[PARE_MAX_RANK], n;
};
PARE_API const struct pare_units *pare_layer_units(const struct pare_layer *l);

/* ---- tools --------------------------------------------------------------------------------- */

/* score[u] = sum over unit u of |x|^power; x has the weight's shape, power is 1 or 2. */
PARE_API void pare_units_sum(const struct pare_units *u, const struct pare_tensor *x, int power,
                             float *score);

/* keep[i] = 0 for exactly the `gone` lowest of n scores (the first of equal ones), else 1. */
PARE_API int pare_keep_largest(struct pare_compression *c, const float *score, int64_t n,
                               int64_t gone, uint8_t *keep, struct pare_err *err);

/* c (m, n) = a (m, k) times b (n, k) transposed, all dense and row-major.  0, or PARE_ENOMEM. */
PARE_API int pare_product(const float *a, int64_t m, const float *b, int64_t n, int64_t k,
                          float *c);

/* Make the masks that are due now, instead of after the next step. */
PARE_API int pare_compression_update_masks(struct pare_compression *c, struct pare_err *err);

/* ---- the descriptor ------------------------------------------------------------------------ */

/* Return value of calc_mask() and score(): not ready.  The mask stays, and the library asks again
 * after the next step. */
#define PARE_NOT_YET (-1)

/* Bits of pare_algorithm.flags. */
enum pare_pruner_flag {
    PARE_ONE_SHOT = 1,    /* after a mask was made, ask again only after pare_layer_aim() */
    PARE_REGROW = 2,      /* rank removed units again; default: they stay removed */
    PARE_MAGNITUDE = 4,   /* the score of an element is |weight|; score() is for larger units */
    PARE_USES_BASE = 8,   /* works over another pruner, which the setting `base` names */
    PARE_USES_GRAMS = 64, /* needs second moments of a layer's inputs: skip layers without them */
};

struct pare_pruner {
    uint32_t size;           /* sizeof(struct pare_pruner) */
    const char *granularity; /* default of the config key: "out_channel"; NULL: "element" */
    const char *mode;        /* default of the setting: "global"; NULL: "normal" */

    /* One of the two, except with PARE_USES_BASE.  Called by pare_compression_update_masks() and
     * after every step for the layers whose mask is due. */
    int (*calc_mask)(struct pare_compression *c, struct pare_layer *l, struct pare_err *err);
    int (*score)(struct pare_compression *c, struct pare_layer *l, float *score,
                 struct pare_err *err);

    /* Called after masks of layers changed and the masked weights are in the model: change the
     * weights that are left, to make up for those that are not.  NULL: they stay. */
    int (*fit)(struct pare_compression *c, struct pare_err *err);
};

#ifdef __cplusplus
}
#endif

#endif
