/* pruner.h - write a pruner; included by <pare/plugin.h>.
 *
 * A pruner decides which weights of which layers become 0.  It never touches the weights: it
 * writes masks, and the core sees to it that the model runs with weight * mask, that gradients go
 * through the product, and that masked weights can come back.
 *
 * There are two ways to write one.  The short one is score(): a number for each unit (an element,
 * an output channel, ...) of a layer, and the core removes those with the least.  The long one is
 * calc_mask(), which writes the mask itself.  Built-in pruners are src/compress/prune_<name>.c and
 * a line in src/prune/pruners.def; they use nothing but this header.
 */
#ifndef PARE_PRUNER_H
#define PARE_PRUNER_H

#include <pare/option.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pare_compression; /* one compression at work: a model, its layers, a pruner */
struct pare_layer;       /* a node with weights, and all that the compression knows about it */
struct pare_rng;

/* ---- a layer ------------------------------------------------------------------------------- */

PARE_API const char *pare_layer_name(const struct pare_layer *l);
PARE_API const char *pare_layer_type(const struct pare_layer *l); /* PyTorch's: "Conv2d" */
PARE_API int pare_layer_index(const struct pare_layer *l);        /* in the run, from 0 */

/* float32, not masked, of the shape that the file has.  bias: NULL when there is none. */
PARE_API const struct pare_tensor *pare_layer_weight(const struct pare_layer *l);
PARE_API const struct pare_tensor *pare_layer_bias(const struct pare_layer *l);

/* Gradients by weight * mask and bias * mask, in before_step(); NULL elsewhere.  What is changed
 * here, the optimizer gets. */
PARE_API struct pare_tensor *pare_layer_grad(const struct pare_layer *l);
PARE_API struct pare_tensor *pare_layer_bias_grad(const struct pare_layer *l);

/* PARE_BOOL, of the weight's and the bias's shape: 1 stays, 0 goes.  At first all 1. */
PARE_API struct pare_tensor *pare_layer_mask(struct pare_layer *l);
PARE_API struct pare_tensor *pare_layer_bias_mask(struct pare_layer *l);

/* The weight's axis that counts output channels, or input channels of a group; -1: there is none.
 * It differs: a Conv2d has (out, in, h, w), a ConvTranspose2d (in, out, h, w), a Linear either. */
PARE_API int pare_layer_out_axis(const struct pare_layer *l);
PARE_API int pare_layer_in_axis(const struct pare_layer *l);

/* What part of the weights is to go, in [0, 1); 0 when the config does not say, where
 * config_sparsity is -1.  aim() changes it, and the next time that masks are due they are made for
 * it. */
PARE_API double pare_layer_sparsity(const struct pare_layer *l);
PARE_API double pare_layer_config_sparsity(const struct pare_layer *l);
PARE_API void pare_layer_aim(struct pare_layer *l, double sparsity);

/* Your keys of the config_list entry that chose this layer, and your layer_size zeroed bytes,
 * which are saved in checkpoints: keep no pointers there. */
PARE_API const void *pare_layer_conf(const struct pare_layer *l);
PARE_API void *pare_layer_state(struct pare_layer *l);

/* A named tensor kept with the layer and saved in checkpoints.  The first call makes it, zeroed;
 * later ones return the same.  NULL on error. */
PARE_API struct pare_tensor *pare_layer_buffer(struct pare_layer *l, const char *name,
                                               enum pare_dtype dtype, int rank, const int64_t *dim,
                                               struct pare_err *err);

/* The same for statistics of the data, n numbers.  Where several processes share the data (mpirun)
 * each sees its part of every batch; after the collectors of a forward were called, and after
 * pare_compression_forward(), every process has the sum, the least or the largest of what was put here
 * anywhere.  PARE_F32, PARE_F64 or PARE_I64.  Counts of a histogram are a sum. */
enum pare_merge { PARE_MERGE_NONE, PARE_MERGE_SUM, PARE_MERGE_MIN, PARE_MERGE_MAX };
PARE_API struct pare_tensor *pare_layer_statistic(struct pare_layer *l, const char *name,
                                                  enum pare_merge merge, enum pare_dtype dtype,
                                                  int64_t n, struct pare_err *err);

/* The units that are kept or removed as a whole: the weight cut into blocks of `block`, grid[0] *
 * grid[1] * ... = n of them, in row-major order.  Of an element the block is (1, 1, ...), of an
 * output channel of a convolution (1, in, h, w). */
struct pare_units {
    int rank;
    int64_t block[PARE_MAX_RANK], grid[PARE_MAX_RANK], n;
};
PARE_API const struct pare_units *pare_layer_units(const struct pare_layer *l);

/* score[u] = sum over unit u of |x|^power; x has the weight's shape, power is 1 or 2. */
PARE_API void pare_units_sum(const struct pare_units *u, const struct pare_tensor *x, int power,
                             float *score);

/* keep[i] = 0 for exactly the `gone` smallest of n scores (of equal ones the first go), else 1. */
PARE_API int pare_keep_largest(struct pare_compression *r, const float *score, int64_t n,
                               int64_t gone, uint8_t *keep, struct pare_err *err);

/* c (m, n) = a (m, k) times b (n, k) transposed, all dense and row-major.  0, or PARE_ENOMEM. */
PARE_API int pare_product(const float *a, int64_t m, const float *b, int64_t n, int64_t k,
                          float *c);

/* ---- a run --------------------------------------------------------------------------------- */

PARE_API int pare_compression_layers(const struct pare_compression *r);
PARE_API struct pare_layer *pare_compression_layer(struct pare_compression *r,
                                                   int i); /* NULL past the end */
PARE_API struct pare_compression *pare_layer_run(const struct pare_layer *l);
PARE_API const void *
pare_compression_conf(const struct pare_compression *r); /* your opts, filled in */
PARE_API void *
pare_compression_state(struct pare_compression *r); /* your run_size, saved in checkpoints */
PARE_API struct pare_arena *
pare_compression_scratch(struct pare_compression *r); /* emptied when you return */
PARE_API struct pare_rng *pare_compression_rng(struct pare_compression *r);
PARE_API double pare_rng_uniform(struct pare_rng *r); /* the next number in [0, 1) */
PARE_API int pare_compression_threads(const struct pare_compression *r);
PARE_API int64_t
pare_compression_steps(const struct pare_compression *r); /* optimizer steps so far */

/* Call fn after every forward of every layer of the run, until it is removed; fn sees what goes in
 * and what comes out, row-major, the batch first.  Several may be there at a time. */
typedef int pare_collect_fn(struct pare_layer *l, const struct pare_tensor *in,
                            const struct pare_tensor *out, void *user, struct pare_err *err);
PARE_API int pare_add_collector(struct pare_compression *r, pare_collect_fn *fn, void *user,
                                int *id, struct pare_err *err);
PARE_API int pare_remove_collector(struct pare_compression *r, int id, struct pare_err *err);

/* Run so many batches of the training data through the model as it is, for collectors to see;
 * nothing is learned.  An error when the run has no data. */
PARE_API int pare_compression_forward(struct pare_compression *r, int64_t batches,
                                      struct pare_err *err);

/* Numbers found in this batch, here in the part of it that this process has, become those of the
 * whole batch.  All processes must come here, in the same order; alone it does nothing.  part() is
 * how much of the batch is here, from 0 to 1. */
PARE_API int pare_compression_merge(struct pare_compression *r, enum pare_merge merge,
                                    enum pare_dtype dtype, void *data, int64_t n,
                                    struct pare_err *err);
PARE_API double pare_compression_share(const struct pare_compression *r);

/* Ask for the masks of all layers now. */
PARE_API int pare_compression_update_masks(struct pare_compression *r, struct pare_err *err);

/* Remember all weights and statistics; bring them back (optimizer, schedule and all else start
 * anew, masks stay). */
PARE_API int pare_compression_remember(struct pare_compression *r, struct pare_err *err);
PARE_API int pare_compression_rewind(struct pare_compression *r, struct pare_err *err);

/* An Adam step (0.9, 0.999, 1e-8) of a layer's buffer, for pruners that learn parameters of their
 * own; the moments are buffers too. */
PARE_API int pare_layer_adam(struct pare_layer *l, const char *buffer, const float *grad, double lr,
                             struct pare_err *err);

/* ---- the descriptor ------------------------------------------------------------------------ */

/* calc_mask() and score() may answer this: not ready, leave the mask, ask again. */
#define PARE_NOT_YET (-1)

enum pare_pruner_flag {
    PARE_ONE_SHOT = 1,     /* once a mask was made, ask again only after pare_layer_aim() */
    PARE_REGROW = 2,       /* units that were removed are ranked again; else they stay removed */
    PARE_MAGNITUDE = 4,    /* the score of an element is |weight|; score() is for larger units */
    PARE_USES_BASE = 8,    /* works over another pruner, named by the setting `base` */
    PARE_NEEDS_DATA = 16,  /* cannot work without data ... */
    PARE_NEEDS_STEPS = 32, /* ... or without training steps */
    PARE_LEARNS = 64, /* of quantizers: backward() for inputs of the model too, to learn scales */
    PARE_ANY_ORDER = 128, /* of quantizers: numbers of one scale are treated alike wherever they
                             are, so they may come in another order, and gx may be gy */
};

struct pare_pruner {
    uint32_t abi;                /* PARE_ABI */
    const char *name, *doc;      /* what a config calls it; one sentence */
    const struct pare_opt *keys; /* of config_list entries, beside those that all pruners know */
    size_t conf_size;            /* ... into this, for each layer */
    const struct pare_opt *opts; /* settings of the whole run */
    size_t opts_size;
    size_t layer_size, run_size; /* your state */
    unsigned flags;
    const char *types;       /* "Conv2d|Linear": layers it can prune; NULL: any with a weight */
    const char *granularity; /* unless the config says another: "element", "out_channel", ... */
    const char *mode;        /* unless the settings say another: "normal" (or NULL), "global" */

    /* In this order.  All but the masks may be NULL.  on_epoch() is called once more when the last
     * epoch is over. */
    int (*start)(struct pare_compression *r, struct pare_err *err); /* layers and masks are there */
    int (*on_epoch)(struct pare_compression *r, int64_t epoch,
                    struct pare_err *err); /* one begins */
    int (*loss)(struct pare_compression *r, double *loss,
                struct pare_err *err); /* add to it, before ... */
    int (*before_step)(struct pare_compression *r, struct pare_err *err); /* gradients are there */
    int (*on_step)(struct pare_compression *r, int64_t step,
                   struct pare_err *err);     /* after the optimizer */
    void (*stop)(struct pare_compression *r); /* runs even if start() failed */

    /* The masks: one of the two.  Asked for by pare_compression_update_masks() and after every step. */
    int (*calc_mask)(struct pare_compression *r, struct pare_layer *l, struct pare_err *err);
    int (*score)(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err);

    /* How much training the pruner itself needs, before any fine-tuning. */
    int (*length)(struct pare_compression *r, int64_t *epochs, int64_t *steps,
                  struct pare_err *err);
};

#ifdef __cplusplus
}
#endif

#endif
