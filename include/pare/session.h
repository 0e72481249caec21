/* session.h - compress a model step by step, with hooks into training.
 *
 *     static const char *const types[] = { "Conv2d", "Linear", NULL };
 *     struct pare_rule rule = { .op_types = types, .keys = "sparsity=0.8" };
 *
 *     pare_training_new(model, &train_opts, &training, &err);
 *     pare_compression_new(model, &opts, &c, &err);    { .pruner = "level", .rule = &rule, ... }
 *     pare_compression_follow(c, training, &err);      masks are updated at each optimizer step
 *     pare_compression_compress(c, &err);              masks are made, or will be during training
 *     pare_training_run(training, on_epoch, NULL, &err);
 *     pare_compression_export(c, &files, &err);
 *
 * <pare/pruner.h> and <pare/quantizer.h> have the functions that read a compression and its layers.
 * A compression, its model and its training can be freed in any order.
 */
#ifndef PARE_SESSION_H
#define PARE_SESSION_H

#include <pare/pruner.h>
#include <pare/quantizer.h>
#include <pare/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An entry of a config_list. */
struct pare_rule {
    const char *const *op_types; /* ends with NULL; NULL itself: any type */
    const char *const *op_names; /* names, or "re:" and a regular expression for the whole name */
    bool exclude;                /* leave these layers alone */
    const char *keys;            /* "sparsity=0.8 granularity=out_channel"; the last rule that
                                    matches a layer counts, as a whole */
};

/* Algorithms beyond the built-in ones.  Plugins stay loaded for the life of the process. */
struct pare_registry;
PARE_API struct pare_registry *pare_registry_new(struct pare_err *err); /* NULL on error */
PARE_API void pare_registry_free(struct pare_registry *g);
PARE_API int pare_plugin_load(struct pare_registry *g, const char *path, struct pare_err *err);

struct pare_compression_opts {
    size_t size;                  /* sizeof(struct pare_compression_opts), or 0 */
    const char *pruner;           /* NULL: quantizer is given */
    const char *quantizer;        /* NULL: pruner is given */
    const struct pare_rule *rule; /* the config_list as an array; NULL: config is given */
    int n_rules;
    const char
        *config; /* the config_list as JSON: text, or the name of a file; NULL: rule is given */

    /* Options of the pruner or quantizer: pairs, or words "name=value". */
    const struct pare_given *given;
    int n_given;
    const char *settings; /* NULL: none */

    const struct pare_registry *registry; /* NULL: only built-in algorithms */
    uint64_t seed;
    int threads;     /* 0: all cores */
    bool final;      /* multiply masks into the weights without keeping a copy of the weights */
    bool keep_zeros; /* quantizers: weights that are 0 now stay 0, as in a pruned model */
};

/* Wrap the layers that the config_list selects.  'pare help pruner NAME' lists the keys and options
 * of a pruner.  The model's weights are replaced by the compressed ones as the compression
 * proceeds. */
PARE_API int pare_compression_new(struct pare_model *model,
                                  const struct pare_compression_opts *opts,
                                  struct pare_compression **c, struct pare_err *err);

/* From now on the training updates the unmasked weights, the model has weight * mask, and the
 * algorithm is called at each step and epoch.  With a quantizer, a learning rate that was not given
 * is the lower one of `pare quantize`.  Call it before pare_compression_compress(). */
PARE_API int pare_compression_follow(struct pare_compression *c, struct pare_training *training,
                                     struct pare_err *err);

/* Data for algorithms that observe batches without training.  Call it before
 * pare_compression_compress(). */
PARE_API int pare_compression_use_data(struct pare_compression *c, struct pare_data *data,
                                       int64_t batch, struct pare_err *err);

/* Called while data is observed; returning false cancels pare_compression_compress(). */
PARE_API void pare_compression_on_progress(struct pare_compression *c, pare_progress_fn *progress,
                                           void *user);

/* Take scales and zero points from a file that pare_export.calibration (or NNI) wrote, instead of
 * calibrating.  Call it before pare_compression_compress(). */
PARE_API int pare_compression_calibrate(struct pare_compression *c, const char *path,
                                        struct pare_err *err);

/* Start the algorithm and make the masks or scales that it can make now.  The model has them at
 * once; an algorithm that needs training makes them later, during the training. */
PARE_API int pare_compression_compress(struct pare_compression *c, struct pare_err *err);

/* How much training the algorithm needs before fine-tuning; both may be 0. */
PARE_API int pare_compression_length(struct pare_compression *c, int64_t *epochs, int64_t *steps,
                                     struct pare_err *err);

/* The number of weights whose mask is 0. */
PARE_API int64_t pare_compression_zeros(struct pare_compression *c);

/* Did op_names of the config_list choose the layer? */
PARE_API bool pare_layer_is_named(const struct pare_layer *l);

/* A layer that no entry names and that the pruner cannot handle, so it stays as it is: its name,
 * and the reason in *why.  NULL: i is past the end. */
PARE_API const char *pare_compression_skipped(const struct pare_compression *c, int i,
                                              const char **why);

/* ---- a training loop outside of the library ------------------------------------------------- */

/* For layers that another framework computes and trains.  Replace the weight, neither masked nor
 * quantized, by float32 values of its shape, which are copied; pare_compression_update_masks(),
 * pare_training_step() and pare_training_update_epoch() then use them. */
PARE_API int pare_layer_set_weight(struct pare_layer *l, const struct pare_tensor *weight,
                                   struct pare_err *err);

/* y = x quantized as the forward pass would, which also updates the quantizer's ranges if
 * `training`.  A site that the config does not quantize: y = x. */
PARE_API int pare_layer_quantize(struct pare_layer *l, enum pare_quant_site site, bool training,
                                 const struct pare_tensor *x, struct pare_tensor *y,
                                 struct pare_err *err);

/* gx = d loss / d x, given gy = d loss / d y and the x of pare_layer_quantize(). */
PARE_API int pare_layer_quantize_back(struct pare_layer *l, enum pare_quant_site site,
                                      const struct pare_tensor *x, const struct pare_tensor *gy,
                                      struct pare_tensor *gx, struct pare_err *err);

/* ---- mixed precision ------------------------------------------------------------------------ */

/* Regain accuracy after quantization: the layers whose quantization adds the most noise at the
 * model's outputs, each measured alone on a batch of the data, get more bits (2, 4, 8, then float)
 * until evaluate() returns at least `least`.  The smallest such number of changes is kept. */
struct pare_budget_step {
    int changes; /* in effect in this step: layers that got more bits or became float */
    double accuracy;
    bool holds; /* accuracy is at least `least` */
};

struct pare_budget {
    size_t size;  /* sizeof(struct pare_budget), or 0 */
    double least; /* in [0, 1] */
    int (*evaluate)(void *user, double *accuracy, struct pare_err *err); /* the model as it is */
    void (*on_step)(void *user, const struct pare_budget_step *step);    /* NULL: none */
    void *user;
};

struct pare_budget_layer {
    const char *name, *type;
    int asked[PARE_QUANT_SITES], bits[PARE_QUANT_SITES]; /* weight, input, output; 0: float */
    double noise_db; /* signal to noise at the outputs when only this layer is quantized as asked */
};

struct pare_budget_report {
    bool met; /* false: even the float model misses `least`; then nothing is changed */
    int n_steps, n_layers;
    struct pare_budget_step *step;
    struct pare_budget_layer *layer; /* the changed ones, worst first; the compression's memory */
    double accuracy;                 /* of the configuration that is kept */
};

/* Call it after pare_compression_compress() and after training. */
PARE_API int pare_compression_mixed_precision(struct pare_compression *c,
                                              const struct pare_budget *b,
                                              struct pare_budget_report *report,
                                              struct pare_err *err);

/* ---- results -------------------------------------------------------------------------------- */

/* The pruner or quantizer of a compression. */
PARE_API const char *pare_compression_algorithm(const struct pare_compression *c);

/* A layer of a pruner's compression, see pare_compression_layer(). */
struct pare_pruned_layer {
    double target, sparsity;     /* fraction of the weights, as configured (-1: not) and removed */
    int64_t params, params_left; /* elements of weight and bias, and those that are not masked */
    int64_t channels, channels_left; /* output channels, and those that are not masked; -1: the
                                      * layer is not pruned by output channels */
};
PARE_API void pare_layer_pruned(const struct pare_layer *l, struct pare_pruned_layer *p);

/* Weight, input or output of a layer of a quantizer's compression. */
struct pare_quantized_tensor {
    int bits;       /* 0: the tensor stays float; then the other fields mean nothing */
    char dtype[16]; /* "int8", "uint4" */
    int64_t scales; /* number of scales; 0: the quantizer has none, and no range */
    double lo, hi;  /* smallest and largest value that the integers represent */
    double snr_db;  /* signal-to-noise ratio; infinite: no error; NaN: not measured */
};
PARE_API int pare_layer_quantized(const struct pare_layer *l, enum pare_quant_site site,
                                  struct pare_quantized_tensor *t, struct pare_err *err);

/* What the checker found after pare_quantize(): how far the outputs are from those of the float
 * model on calibration data, and the tensors with the most noise.  Names live as long as the
 * compression. */
#define PARE_CHECK_WORST 3
struct pare_worst_tensor {
    const char *layer;
    enum pare_quant_site site;
    double snr_db; /* of the values near 0, if it is less */
};
struct pare_quantize_check {
    double snr_db, cosine; /* of the outputs; NaN: not measured, as there is no data or no output */
    int unequal, runs;     /* runs in which an output had another number of rows, for example of
                              detected objects, and was not compared; all runs */
    const char *observer;  /* that quantizer ptq used or chose; NULL: none */
    int64_t weights;       /* elements of quantized weights */
    int64_t all_weights;   /* float elements of the model's constants before quantization */
    int left_float;        /* tensors that became float because quantization destroyed them */
    struct pare_worst_tensor worst[PARE_CHECK_WORST], destroyed[PARE_CHECK_WORST];
    int n_worst, n_destroyed;
    double new_snr_db; /* of the outputs on a few items that calibration has not seen; NaN: it has
                          seen all of the data, or there is none */
    int64_t all_seen;  /* items of the data if calibration has seen all of them; else 0 */
    const char *rounding;   /* how weights were rounded by the data: gptq, adaround; NULL: they were
                             not */
    int rounded, unrounded; /* layers; groups of them that got the nearest levels, since their
                               inputs in the data are constant or not finite */
    double rounding_error;  /* output error of these layers divided by that of the nearest levels;
                             * NaN: rounded without data */
    const char *rounding_choice; /* ways to round, how good each was on items that it was not fitted
                                  * to, and which one was kept; NULL: there was no choice */
};
PARE_API void pare_compression_checked(const struct pare_compression *c,
                                       struct pare_quantize_check *k);

/* Pairs of layers that the option "equalize" changed; -1: the option is off. */
PARE_API int pare_compression_equalized(const struct pare_compression *c);

/* Files to write; each may be NULL. */
struct pare_export {
    size_t size;       /* sizeof(struct pare_export), or 0 */
    const char *model; /* the state with masked weights 0: .pth, .safetensors, .npz, or .onnx */
    const char *onnx;  /* the model; of a quantizer, with integers */
    const char *masks; /* .pth, .safetensors, .npz */
    const int64_t *input_shape; /* shape of the first input in the .onnx; NULL: the model's */
    int input_rank;
    bool qoperator;          /* quantizers: QLinearConv and QLinearMatMul where possible, not QDQ */
    const char *calibration; /* quantizers: scales and ranges of the layers as JSON */
    bool nbits;              /* quantizers: MatMulNBits (com.microsoft) for weights by group */
    bool dynamic;            /* quantizers: MatMulInteger and ConvInteger, whose inputs are
                              * quantized at run time */
};
PARE_API int pare_compression_export(struct pare_compression *c, const struct pare_export *e,
                                     struct pare_err *err);

/* Multiply the masks of a file into a model. */
PARE_API int pare_apply_masks(struct pare_model *model, const char *masks, struct pare_err *err);

PARE_API void pare_compression_free(struct pare_compression *c); /* the model keeps its weights */

/* ---- algorithms as data --------------------------------------------------------------------- */

struct pare_algorithm_info {
    const char *name, *doc;
    const char *types;           /* layer types that it handles, "Conv2d|Linear"; NULL: any */
    const struct pare_opt *keys; /* keys of config entries; NULL: only the common ones */
    const struct pare_opt *opts; /* options; NULL: only the common ones */
    const struct pare_opt *common_keys, *common_opts; /* of all pruners (quantizers) */
    bool needs_data, needs_training;
};

/* The i-th pruner (quantizer), built-in ones first; false: there is none.  The registry may be
 * NULL. */
PARE_API bool pare_list_pruner(const struct pare_registry *g, int i, struct pare_algorithm_info *a);
PARE_API bool pare_list_quantizer(const struct pare_registry *g, int i,
                                  struct pare_algorithm_info *a);

#ifdef __cplusplus
}
#endif

#endif
