/* compression.h - a compression at work: the layers it wraps, and what it hangs into training.
 *
 * What a pruner may use is in <pare/pruner.h>; this is what lies behind it.
 */
#ifndef PARE_COMPRESS_COMPRESSION_H
#define PARE_COMPRESS_COMPRESSION_H

#include <pare/compress.h>
#include <pare/plugin.h>

#include "../base/rng.h"
#include "../train/trainer.h"
#include "config.h"
#include "../prune/units.h"

#define PARE_COMPRESSION_PRUNERS 2 /* a pruner, and the one that it works over */

/* The keys that every pruner knows. */
struct pare_goal {
    double sparsity, sparsity_per_layer, total_sparsity; /* -1: not given */
    double max_sparsity_per_layer;
    const char *granularity;
    struct pare_ints block;
    int64_t heads, parts;
};

/* The settings that every pruner knows. */
struct pare_prune_settings {
    const char *mode; /* default, normal, global, balance, dependency_aware */
    struct pare_ints balance_gran;
    const char *base; /* of pruners with PARE_USES_BASE */
};

/* The settings that every quantizer knows. */
struct pare_quant_settings {
    bool equalize, bias_correction;
    int64_t correction_steps;
};

struct pare_buffer {
    const char *name;
    struct pare_tensor t;
    enum pare_merge merge; /* with those of other processes */
    struct pare_buffer *next;
};

struct pare_layer {
    struct pare_compression *run;
    int index;
    struct pare_layer_info info;
    struct pare_value *weight, *bias; /* the model's initializers: weight * mask; bias or NULL */
    struct pare_tensor w, b;          /* not masked; at first the model's own memory */
    struct pare_tensor b_before;      /* the bias before its correction; data NULL: there is none */
    struct pare_tensor mask, bias_mask; /* data NULL: all stay */
    struct pare_tensor grad, bias_grad; /* the trainer's; data NULL: there are none */
    int out_axis, in_axis;
    struct pare_goal goal;
    struct pare_units units;
    double asked, sparsity; /* by the config; aimed at now */
    bool due;               /* a mask is to be made */
    const struct pare_entry *entry;
    void *conf[PARE_COMPRESSION_PRUNERS], *state[PARE_COMPRESSION_PRUNERS];
    struct pare_buffer *buffers;
    struct pare_quant quant[PARE_QUANT_SITES]; /* of quantizers: what the config says ... */
    bool quantized[PARE_QUANT_SITES];          /* ... about the places that it names */
    int asked_bits[PARE_QUANT_SITES];          /* the config's, whatever became of them; or 0 */
    int64_t start_step;
    struct pare_node
        *norm;      /* the BatchNormalization it is rounded with (conv_bn_quant.h), or NULL */
    double *factor; /* ... and by what it was multiplied when it was rounded last */
    struct pare_noise {
        double signal, noise; /* sums of x^2 and (x - rounded x)^2 */
    } noise[PARE_QUANT_SITES];
};

/* A buffer that is learned. */
struct pare_learned_buffer {
    struct pare_tensor value, grad;
    const char *name; /* LAYER.BUFFER */
    struct pare_learned_buffer *next;
};

struct pare_dependency_groups;

struct pare_collector {
    int id;
    pare_collect_fn *fn;
    void *user;
    int who; /* whose it is */
    struct pare_collector *next;
};

struct pare_compression {
    struct pare_arena *arena, *scratch;
    struct pare_model *model;
    struct pare_graph *graph; /* a clone with the shapes of one item, to which layers refer */
    const struct pare_dependency_groups *depend; /* which units go together, once asked for */
    const struct pare_pruner *pruner[PARE_COMPRESSION_PRUNERS]; /* [1]: the base, or NULL */
    const struct pare_quantizer *quantizer; /* pruner[0] is its base; NULL: this is a pruning */
    bool training;                          /* the forward that asks the quantizer */
    bool in_graph;                          /* its nodes are in the model's graph */
    bool looking;                           /* ... and only look, see pare_compression_observe() */
    bool in_parts;                          /* ... a part of a batch at a time */
    int *twin; /* (layers, PARE_QUANT_SITES), see pare_layer_twin(); or NULL */
    const struct pare_json *calibration; /* scales of a file, or NULL */
    const char *calibration_path;
    bool keep_zeros; /* weights that were 0 are masked */
    bool measure;    /* forwards add to pare_layer.noise */
    struct pare_learned_buffer *learned;
    struct pare_optim *optim; /* of those; made at the first step */
    void *conf[PARE_COMPRESSION_PRUNERS], *state[PARE_COMPRESSION_PRUNERS];
    struct pare_prune_settings settings;
    struct pare_quant_settings quant;
    int equalized; /* pairs of layers */
    int who;       /* index of the pruner that is being called */
    struct pare_layer *layer;
    int n_layers;
    struct pare_collector *collectors;
    int last_id;
    struct pare_rng rng;
    int threads;
    struct pare_dist *dist;       /* processes that do the same, each with its part of the data */
    struct pare_trainer *trainer; /* while it follows one */
    struct pare_data *data;       /* to train or calibrate with, retained; or NULL */
    pare_progress_fn *progress;   /* while data is observed; or NULL */
    void *progress_user;
    int64_t batch;
    bool started, in_step;
    bool final;               /* masks are multiplied into the weights, see pare_compression_opts */
    struct pare_pages *pages; /* float weights of a quantizer */
    struct pare_tensor *kept; /* by pare_compression_remember: parameters, then statistics */
};

/* Whose turn it is: what pruner `who` asks for is its own, and its scratch is emptied after. */
struct pare_turn {
    int who;
    struct pare_mark mark;
};
struct pare_turn pare_turn_begin(struct pare_compression *r, int who);
void pare_turn_end(struct pare_compression *r, struct pare_turn t);

/* Index of the pruner that ranks: the base, where there is one. */
int pare_compression_ranker(const struct pare_compression *r);

/* Make the mask of a tensor if it has none: all stay (wrap.c). */
int pare_mask_new(struct pare_compression *r, const struct pare_tensor *of,
                  struct pare_tensor *mask, struct pare_err *err);

/* The layer's weights are not looked at for now (masks.c). */
void pare_layer_release(const struct pare_layer *l);

/* The model gets weight * mask again (masks.c). */
int pare_compression_write_weights(struct pare_compression *r, struct pare_err *err);

/* Only the rounded weights: after a step, when the optimizer has written the others. */
int pare_compression_round_weights(struct pare_compression *r, struct pare_err *err);

/* The model gets its weights back, neither masked nor rounded; of a run that is not final. */
void pare_compression_restore(struct pare_compression *r);

/* Follow a trainer, see pare_compression_follow (train_hooks.c).  data and batch are for statistics. */
int pare_compression_attach(struct pare_compression *r, struct pare_trainer *t,
                            struct pare_data *data, int64_t batch, struct pare_err *err);

/* Call what the pruners have for this moment (compression.c). */
int pare_compression_on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err);
int pare_compression_on_step(struct pare_compression *r, int64_t step, struct pare_err *err);
int pare_compression_before_step(struct pare_compression *r, struct pare_err *err);
int pare_compression_loss(struct pare_compression *r, double *loss, struct pare_err *err);

/* Start a quantizer once more, on the model with float weights: places are rounded in another way
 * now (compression.c).  The weights are not rounded again, see pare_compression_write_weights. */
int pare_compression_restart(struct pare_compression *r, struct pare_err *err);

/* What checkpoints keep of a run (checkpoint_state.c). */
int pare_compression_save(void *run, struct pare_checkpoint *k, struct pare_err *err);
int pare_compression_load(void *run, const struct pare_checkpoint *k, struct pare_err *err);

/* Of several processes (merge_ranks.c): before and after collectors saw a part of the data; gradients of
 * learned buffers; sums of noise after a set was judged; are the masks the same? */
void pare_compression_share_begin(struct pare_compression *r);
int pare_compression_share_end(struct pare_compression *r, struct pare_err *err);
int pare_compression_merge_learned(struct pare_compression *r, struct pare_err *err);
int pare_compression_merge_noise(struct pare_compression *r, struct pare_err *err);
int pare_compression_check_masks(struct pare_compression *r, struct pare_err *err);

/* The values that collectors see, two of each layer; none when there is no collector.  Then hand
 * those of a plan to them (collectors.c). */
int pare_compression_collected_values(struct pare_compression *r, struct pare_strs *names,
                                      struct pare_err *err);
int pare_compression_collect(struct pare_compression *r, const struct pare_plan *p,
                             struct pare_err *err);

#endif
