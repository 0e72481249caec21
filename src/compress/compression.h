/* compression.h - state of one compression: wrapped layers, algorithms, training hooks.
 *
 * Algorithms see it through <pare/algorithm.h>.  What differs between pruning and quantization is
 * in method.h, prune/prune_state.h and quant/quant_state.h.
 */
#ifndef PARE_COMPRESS_COMPRESSION_H
#define PARE_COMPRESS_COMPRESSION_H

#include <pare/compress.h>
#include <pare/plugin.h>

#include "../base/rng.h"
#include "../train/trainer.h"
#include "config.h"

#define PARE_MAX_ALGORITHMS 2 /* an algorithm, and the pruner that it works over */

struct pare_method;
struct pare_prune_state; /* prune/prune_state.h */
struct pare_layer_prune;
struct pare_quant_state; /* quant/quant_state.h */
struct pare_layer_quant;

struct pare_buffer {
    const char *name;
    struct pare_tensor t;
    enum pare_merge merge; /* over processes */
    struct pare_buffer *next;
};

/* Three copies of a weight matter: `w` is trained, `weight` is what the model computes with (the
 * effective weight: w * mask, possibly quantized), and both are one until the first mask. */
struct pare_layer {
    struct pare_compression *compression;
    int index; /* in compression->layer */
    struct pare_layer_info info;
    struct pare_value *weight, *bias;   /* the model's initializers; NULL: none */
    struct pare_tensor w, b;            /* neither masked nor quantized */
    struct pare_tensor mask, bias_mask; /* PARE_BOOL; data NULL: keep all */
    struct pare_tensor grad, bias_grad; /* the trainer's; data NULL: not trained */
    int out_axis, in_axis;              /* of w; -1: none */
    bool has_second;                    /* the next layer is its second weight (LSTM: R) */
    bool is_second;                     /* the second weight of the layer before it */
    bool unseen;                        /* collectors do not see it; never the first layer */
    const struct pare_entry *entry;     /* of the config_list */
    void *conf[PARE_MAX_ALGORITHMS], *state[PARE_MAX_ALGORITHMS];
    struct pare_buffer *buffers;
    struct pare_layer_prune *prune; /* NULL unless this is pruning */
    struct pare_layer_quant *quant; /* NULL unless this is quantization */
};

struct pare_collector {
    int id;
    pare_collect_fn *fn;
    void *user;
    int algorithm; /* index of the algorithm that added it */
    struct pare_collector *next;
};

/* A layer that no entry names and that the algorithm cannot handle; it stays as it is. */
struct pare_skipped {
    const char *name, *why;
};

struct pare_compression {
    struct pare_arena *arena, *scratch;
    struct pare_model *model;
    struct pare_graph *graph; /* a clone with the shapes of one item; layer.info refers to it */
    const struct pare_method *method;
    struct pare_prune_state *prune; /* NULL unless this is pruning */
    struct pare_quant_state *quant; /* NULL unless this is quantization */

    /* [1]: the pruner that [0] works over, or NULL. */
    const struct pare_algorithm *algorithm[PARE_MAX_ALGORITHMS];
    void *conf[PARE_MAX_ALGORITHMS], *state[PARE_MAX_ALGORITHMS];
    int current; /* index of the algorithm that is being called */

    struct pare_layer *layer;
    int n_layers;
    int n_hidden; /* the last ones of them, which follow others: algorithms do not see them */
    struct pare_skipped *skipped;
    int n_skipped;
    struct pare_collector *collectors;
    int last_id; /* of a collector */

    struct pare_rng rng;
    int threads;                  /* 0: all cores */
    struct pare_dist *dist;       /* processes that share the data, or NULL */
    struct pare_trainer *trainer; /* while attached to one, or NULL */
    struct pare_data *data;       /* to train or calibrate with, retained; or NULL */
    pare_progress_fn *progress;   /* called for each batch of pare_compression_forward(); or NULL */
    void *progress_user;
    int64_t batch;       /* items of a batch of it */
    int64_t first_batch; /* of pare_compression_forward_once(): those before it are not run */
    bool started;
    bool in_step;             /* between backward pass and optimizer step: gradients are valid */
    bool in_parts;            /* pare_compression_forward() may run a batch in several parts */
    bool final;               /* masks are multiplied into the weights; no copy is kept */
    bool paged;               /* weights, and masks if final, are in scratch pages */
    struct pare_pages *pages; /* those of float weights and masks */
    struct pare_tensor *remembered; /* by pare_compression_remember(): parameters, statistics */
    /* Called once, after the step of a training that made the first masks; or NULL. */
    int (*masked)(void *user, struct pare_err *err);
    void *masked_user;
};

/* ---- life ---------------------------------------------------------------------------------- */

/* pare_compression_new() with the method chosen.  g: the model's graph with the shapes of one item
 * (pare_model_shapes()), which lives longer than the compression; NULL: it is inferred. */
int pare_compression_open(const struct pare_method *method, struct pare_model *model,
                          const struct pare_compression_opts *o, struct pare_graph *g,
                          struct pare_compression **c, struct pare_err *err);

/* Check that the algorithms have the data that they need, and call start() of each. */
int pare_compression_start(struct pare_compression *c, struct pare_err *err);

/* Attach to a trainer, see pare_compression_follow().  data and batch are for statistics. */
int pare_compression_attach(struct pare_compression *c, struct pare_trainer *t,
                            struct pare_data *data, int64_t batch, struct pare_err *err);

/* Processes that share the data; NULL: none. */
void pare_compression_share_with(struct pare_compression *c, struct pare_dist *dist);

/* ---- calls of algorithms ------------------------------------------------------------------- */

/* Between begin and end `algorithm` is the current one.  end() resets the scratch arena. */
struct pare_call_scope {
    int algorithm;
    struct pare_mark mark;
};
struct pare_call_scope pare_call_begin(struct pare_compression *c, int algorithm);
void pare_call_end(struct pare_compression *c, struct pare_call_scope s);

/* Call one hook of each algorithm. */
int pare_compression_on_start(struct pare_compression *c, struct pare_err *err);
int pare_compression_on_epoch(struct pare_compression *c, int64_t epoch, struct pare_err *err);
int pare_compression_on_step(struct pare_compression *c, int64_t step, struct pare_err *err);
int pare_compression_before_step(struct pare_compression *c, struct pare_err *err);
int pare_compression_loss(struct pare_compression *c, double *loss, struct pare_err *err);

/* ---- weights (effective_weights.c) --------------------------------------------------------- */

/* Create the mask of a tensor if it has none; it keeps all elements. */
int pare_mask_new(struct pare_compression *c, const struct pare_tensor *of,
                  struct pare_tensor *mask, struct pare_err *err);

/* Elements that a mask removes. */
int64_t pare_mask_zeros(const struct pare_tensor *mask);

/* to = mask ? from : 0; mask NULL: to = from. */
void pare_mask_apply(const float *from, const uint8_t *mask, float *to, int64_t n);

/* Write the effective weights of all layers into the model. */
int pare_compression_write_weights(struct pare_compression *c, struct pare_err *err);

/* The method's write_weight() without quantization: w * mask, unless a trainer writes it. */
int pare_layer_write_masked(struct pare_layer *l, struct pare_err *err);

/* Drop the pages of the layer's weights until they are used again. */
void pare_layer_release(const struct pare_layer *l);

/* Write w and b back into the model, neither masked nor quantized.  Not with `final`. */
void pare_compression_restore(struct pare_compression *c);

/* ---- checkpoints (checkpoint_state.c) ------------------------------------------------------ */

int pare_compression_save(void *compression, struct pare_checkpoint *k, struct pare_err *err);
int pare_compression_load(void *compression, const struct pare_checkpoint *k, struct pare_err *err);

/* Saving and loading go through the same functions, so that they cannot differ. */
struct pare_checkpoint_pass {
    struct pare_checkpoint *save;       /* NULL: load */
    const struct pare_checkpoint *load; /* NULL: save */
    struct pare_arena *arena;           /* lives until the file is written */
};
int pare_checkpoint_pass(const struct pare_checkpoint_pass *p, const char *kind, const char *name,
                         struct pare_tensor *t, struct pare_err *err);

/* ---- several processes (merge_ranks.c) ----------------------------------------------------- */

/* Before and after collectors saw this process's part of the data: merge statistics. */
void pare_compression_share_begin(struct pare_compression *c);
int pare_compression_share_end(struct pare_compression *c, struct pare_err *err);

/* An error if the masks are not the same in all processes. */
int pare_compression_check_masks(struct pare_compression *c, struct pare_err *err);

/* ---- collectors (collectors.c) ------------------------------------------------------------- */

/* As pare_compression_forward(), but no item is seen twice. */
int pare_compression_forward_once(struct pare_compression *c, int64_t batches,
                                  struct pare_err *err);

/* The values that collectors read, input and output of each layer; none without a collector. */
int pare_compression_collected_values(struct pare_compression *c, struct pare_strs *names,
                                      struct pare_err *err);

/* Call the collectors on these values of a plan. */
int pare_compression_collect(struct pare_compression *c, const struct pare_plan *p,
                             struct pare_err *err);

/* Runs the same items through the model again and again: next() is called before each pass, and
 * ends them by *more = false, after `most` passes or fewer.  The plan is built once, so passes must
 * not change weights. */
typedef int pare_repeat_fn(void *user, bool *more, struct pare_err *err);
int pare_compression_repeat(struct pare_compression *c, int64_t items, int most,
                            pare_repeat_fn *next, void *user, struct pare_err *err);

#endif
