/* algorithm.h - what pruners and quantizers have in common: layers, state, training hooks.
 *
 * An algorithm works on a compression: a model, the layers that a config_list chose from it
 * ("wrapped" layers), and the training data if there is any.  <pare/pruner.h> and
 * <pare/quantizer.h> add what only one of the two kinds has; an algorithm includes one of them.
 *
 * Rules that hold throughout:
 *  - The library owns all that it returns here.  Pointers to a compression, its layers, buffers
 *    and settings are valid until the compression is freed; scratch memory until the callback
 *    returns.  An algorithm never frees anything.
 *  - A callback returns 0, or an error code after pare_fail() described the error in `err`.
 *  - Callbacks run in the thread that called into the library, one at a time for one compression.
 *    Compressions of different models may run in different threads; an algorithm therefore keeps
 *    its state in the compression and in layers, not in static variables.
 *  - "conf", "state" and the scratch arena are those of the algorithm that is being called, also
 *    when one algorithm works over another (PARE_USES_BASE).
 */
#ifndef PARE_ALGORITHM_H
#define PARE_ALGORITHM_H

#include <pare/option.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pare_compression; /* one model being compressed */
struct pare_layer;       /* one wrapped layer of it: a node, usually with a weight */
struct pare_rng;
struct pare_pruner;
struct pare_quantizer;

/* ---- layers -------------------------------------------------------------------------------- */

PARE_API const char *pare_layer_name(const struct pare_layer *l);
PARE_API const char *pare_layer_type(const struct pare_layer *l); /* PyTorch's: "Conv2d" */
PARE_API int pare_layer_index(const struct pare_layer *l);        /* in the compression, from 0 */
PARE_API struct pare_compression *pare_layer_compression(const struct pare_layer *l);

/* The float32 weight and bias, neither masked nor quantized, in the shape that the file has.  Read
 * only.  bias: NULL if the layer has none. */
PARE_API const struct pare_tensor *pare_layer_weight(const struct pare_layer *l);
PARE_API const struct pare_tensor *pare_layer_bias(const struct pare_layer *l);

/* Gradients with respect to weight and bias, in before_step(); NULL elsewhere and for frozen
 * parameters.  The optimizer uses what before_step() leaves there. */
PARE_API struct pare_tensor *pare_layer_grad(const struct pare_layer *l);
PARE_API struct pare_tensor *pare_layer_bias_grad(const struct pare_layer *l);

/* The weight's axis of output channels, and of input channels (of one group); -1: none.  A Conv2d
 * has (out, in, h, w), a ConvTranspose2d (in, out, h, w), a Linear either order. */
PARE_API int pare_layer_out_axis(const struct pare_layer *l);
PARE_API int pare_layer_in_axis(const struct pare_layer *l);

/* The axis of the channels in an output of `rank` axes: 1 of a convolution, else the last. */
PARE_API int pare_layer_output_axis(const struct pare_layer *l, int rank);

/* The algorithm's keys of the config_list entry that chose this layer (conf_size bytes), and its
 * state for this layer: layer_size bytes, zeroed at first.  Checkpoints store the state as it is,
 * so it must not contain pointers. */
PARE_API const void *pare_layer_conf(const struct pare_layer *l);
PARE_API void *pare_layer_state(struct pare_layer *l);

/* A named tensor of the layer, stored in checkpoints.  The first call creates it, zeroed; later
 * calls return the same tensor and must ask for the same type and shape.  NULL on error. */
PARE_API struct pare_tensor *pare_layer_buffer(struct pare_layer *l, const char *name,
                                               enum pare_dtype dtype, int rank, const int64_t *dim,
                                               struct pare_err *err);

/* A buffer of n numbers (PARE_F32, PARE_F64 or PARE_I64) for statistics of the data.  If several
 * processes share the data (mpirun), each one sees its part of a batch; after the collectors of a
 * forward pass and after pare_compression_forward(), all processes have the sum, minimum or
 * maximum over all parts.  A histogram is a PARE_MERGE_SUM of counts. */
enum pare_merge { PARE_MERGE_NONE, PARE_MERGE_SUM, PARE_MERGE_MIN, PARE_MERGE_MAX };
PARE_API struct pare_tensor *pare_layer_statistic(struct pare_layer *l, const char *name,
                                                  enum pare_merge merge, enum pare_dtype dtype,
                                                  int64_t n, struct pare_err *err);

/* One Adam step (0.9, 0.999, 1e-8) on a float32 buffer that an algorithm learns itself.  The
 * moments are buffers too: NAME.exp_avg, NAME.exp_avg_sq, NAME.step. */
PARE_API int pare_layer_adam(struct pare_layer *l, const char *buffer, const float *grad, double lr,
                             struct pare_err *err);

/* ---- a compression ------------------------------------------------------------------------- */

PARE_API int pare_compression_layers(const struct pare_compression *c); /* their number */
PARE_API struct pare_layer *pare_compression_layer(struct pare_compression *c,
                                                   int i); /* NULL past the end */

/* The algorithm's settings (opts_size bytes), and its state: state_size bytes, zeroed at first,
 * stored in checkpoints as it is. */
PARE_API const void *pare_compression_conf(const struct pare_compression *c);
PARE_API void *pare_compression_state(struct pare_compression *c);

/* Memory for the current callback; it is reset when the callback returns. */
PARE_API struct pare_arena *pare_compression_scratch(struct pare_compression *c);

/* The random numbers of this compression: seeded by the caller, stored in checkpoints, the same in
 * all processes. */
PARE_API struct pare_rng *pare_compression_rng(struct pare_compression *c);
PARE_API double pare_rng_uniform(struct pare_rng *r); /* the next number in [0, 1) */

PARE_API int pare_compression_threads(const struct pare_compression *c);   /* 0: all cores */
PARE_API int64_t pare_compression_steps(const struct pare_compression *c); /* optimizer steps */

/* A collector: fn is called after every forward pass for every wrapped layer until it is removed,
 * also by itself.  It reads the layer's input and output, row-major, batch first.  There may be
 * several collectors. */
typedef int pare_collect_fn(struct pare_layer *l, const struct pare_tensor *in,
                            const struct pare_tensor *out, void *user, struct pare_err *err);
PARE_API int pare_add_collector(struct pare_compression *c, pare_collect_fn *fn, void *user,
                                int *id, struct pare_err *err);
PARE_API int pare_remove_collector(struct pare_compression *c, int id, struct pare_err *err);

/* Run N batches of the training data through the model as it is, for collectors; no training.  An
 * error if the compression has no data. */
PARE_API int pare_compression_forward(struct pare_compression *c, int64_t batches,
                                      struct pare_err *err);

/* Merge numbers computed from this process's part of a batch over all processes.  All processes
 * must call it, in the same order; with one process it does nothing.  share() is the part of the
 * batch that this process has, from 0 to 1. */
PARE_API int pare_compression_merge(struct pare_compression *c, enum pare_merge merge,
                                    enum pare_dtype dtype, void *data, int64_t n,
                                    struct pare_err *err);
PARE_API double pare_compression_share(const struct pare_compression *c);

/* Remember all parameters and running statistics; later restore them, which also resets the
 * optimizer and the learning rate schedule.  Masks stay.  Both need training. */
PARE_API int pare_compression_remember(struct pare_compression *c, struct pare_err *err);
PARE_API int pare_compression_rewind(struct pare_compression *c, struct pare_err *err);

/* ---- the descriptor ------------------------------------------------------------------------ */

/* Bits of pare_algorithm.flags.  <pare/pruner.h> and <pare/quantizer.h> have more. */
enum pare_algorithm_flag {
    PARE_NEEDS_DATA = 16,  /* refuse to start without data */
    PARE_NEEDS_STEPS = 32, /* refuse to start without training */
};

/* Exactly one of pruner and quantizer is set.  How fields are added without breaking plugins:
 * see <pare/plugin.h>. */
struct pare_algorithm {
    uint32_t abi;                /* PARE_ABI */
    uint32_t size;               /* sizeof(struct pare_algorithm) */
    const char *name, *doc;      /* name in a config: a-z, 0-9 and _; one sentence for help */
    const struct pare_opt *keys; /* keys of config_list entries besides the common ones; or NULL */
    size_t conf_size;            /* size of the struct that `keys` fills, one for each layer */
    const struct pare_opt *opts; /* settings of the whole compression, or NULL */
    size_t opts_size;            /* size of the struct that `opts` fills */
    size_t layer_size;           /* bytes of pare_layer_state() */
    size_t state_size;           /* bytes of pare_compression_state() */
    unsigned flags;
    const char *types; /* layers that it works on: "Conv2d|Linear"; "recurrent" stands for LSTM, GRU
                        * and RNN; NULL: all */

    /* Hooks, in the order in which they are called; each may be NULL.  on_epoch() is called when
     * an epoch begins and once more after the last one. */
    int (*start)(struct pare_compression *c, struct pare_err *err); /* layers are wrapped */
    int (*on_epoch)(struct pare_compression *c, int64_t epoch, struct pare_err *err);
    int (*loss)(struct pare_compression *c, double *loss, struct pare_err *err); /* add to *loss */
    int (*before_step)(struct pare_compression *c, struct pare_err *err); /* gradients are final */
    int (*on_step)(struct pare_compression *c, int64_t step, struct pare_err *err); /* after it */
    void (*stop)(struct pare_compression *c); /* also after start() failed */

    /* The training that the algorithm itself needs before any fine-tuning: epochs, steps, or both.
     * Both are 0 on entry.  NULL: none. */
    int (*length)(struct pare_compression *c, int64_t *epochs, int64_t *steps,
                  struct pare_err *err);

    const struct pare_pruner *pruner;
    const struct pare_quantizer *quantizer;
};

#ifdef __cplusplus
}
#endif

#endif
