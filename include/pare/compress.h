/* compress.h - prune a model from C.
 *
 *     static const char *const types[] = { "Conv2d", "Linear", NULL };
 *     struct pare_rule rule = { .op_types = types, .keys = "sparsity=0.8" };
 *
 *     pare_training_new(model, "fashion-mnist", "lr=0.01 epochs=2", &learn, &err);
 *     pare_compression_new(model, &opts, &run, &err);       { .pruner = "level", .rule = &rule, ... }
 *     pare_compression_follow(run, learn, &err);            masks follow each optimizer step
 *     pare_compression_compress(run, &err);                 ... from now on
 *     pare_training_run(learn, say, NULL, &err);       or a loop of one's own
 *     pare_compression_export(run, &files, &err);
 *
 * <pare/pruner.h> has what can be asked of a run and its layers.
 */
#ifndef PARE_COMPRESS_H
#define PARE_COMPRESS_H

#include <pare/pare.h>
#include <pare/pruner.h>
#include <pare/quantizer.h>

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

/* What was added to the built-in algorithms.  Plugins stay loaded for the life of the process. */
struct pare_registry;
PARE_API struct pare_registry *pare_registry_new(struct pare_err *err); /* NULL on error */
PARE_API void pare_registry_free(struct pare_registry *g);              /* NULL is fine */
PARE_API int pare_plugin_load(struct pare_registry *g, const char *path, struct pare_err *err);

struct pare_compression_opts {
    const char *pruner;
    const char *quantizer;        /* instead of a pruner */
    const struct pare_rule *rule; /* the config_list, from C ... */
    int n_rules;
    const char *config;                   /* ... or as JSON: text, or the name of a file */
    const char *settings;                 /* of the pruner, as words "name=value"; or NULL */
    const struct pare_registry *registry; /* or NULL: only what is built in */
    uint64_t seed;
    int threads;     /* 0: all cores */
    bool final;      /* masks go into the weights for good: no copy of those is kept */
    bool keep_zeros; /* of quantizers: weights that are 0 now stay 0, as in a pruned model */
};

/* Wrap the layers that the config_list chooses.  'pare help pruner NAME' lists the keys and
 * settings of a pruner.  The model must outlive the run. */
PARE_API int pare_compression_new(struct pare_model *model,
                                  const struct pare_compression_opts *opts,
                                  struct pare_compression **run, struct pare_err *err);

/* From now on the learner trains the unmasked weights, the model has weight * mask, and the pruner
 * is called at each step and epoch.  Before pare_compression_compress().  Free the learner first, or train
 * no more with it. */
PARE_API int pare_compression_follow(struct pare_compression *run, struct pare_training *learn,
                                     struct pare_err *err);

/* Scales and zero points from a file that pare_export.calibration (or NNI) wrote, instead of what
 * the quantizer would find out.  Before pare_compression_compress(). */
PARE_API int pare_compression_calibrate(struct pare_compression *run, const char *path,
                                        struct pare_err *err);

/* Start the pruner and make the masks that it can make now.  The model has them at once; a pruner
 * that needs training makes them later, as the learner goes on. */
PARE_API int pare_compression_compress(struct pare_compression *run, struct pare_err *err);

/* How much training the pruner wants before fine-tuning; both may be 0. */
PARE_API int pare_compression_length(struct pare_compression *run, int64_t *epochs, int64_t *steps,
                                     struct pare_err *err);

/* A quantized model that lost too much accuracy gets some of it back: the layers whose rounding
 * makes most noise at the model's outputs, each measured by itself on a batch of the learner's
 * data, are rounded to more bits (2, 4, 8), at last not at all, until judge() finds an accuracy
 * that is not below `least`.  The fewest changes of this order that were seen to do are kept. */
struct pare_budget_step {
    int changes; /* in effect when judged: a layer that got more bits, or became float */
    double accuracy;
    bool holds;
};

struct pare_budget {
    double least; /* in [0, 1], as what judge() says */
    int (*judge)(void *user, double *accuracy, struct pare_err *err); /* of the model as it is */
    void (*say)(void *user, const struct pare_budget_step *step);     /* after each; or NULL */
    void *user;
};

struct pare_budget_layer {
    const char *name, *type;
    int asked[PARE_QUANT_SITES], bits[PARE_QUANT_SITES]; /* of weight, input, output; 0: float */
    double noise_db; /* signal to noise at the outputs when only this layer is rounded as asked */
};

struct pare_budget_report {
    bool met; /* false: not even all float does; then all is as it was before */
    int n_steps, n_layers;
    struct pare_budget_step *step;
    struct pare_budget_layer *layer; /* the changed ones, worst first; the run's memory */
    double accuracy;                 /* of what is kept */
};

/* After pare_compression_compress() and training, if any. */
PARE_API int pare_compression_mixed_precision(struct pare_compression *run,
                                              const struct pare_budget *b,
                                              struct pare_budget_report *report,
                                              struct pare_err *err);

/* What came of it.  Files may be NULL.  model: .onnx, or the whole state as .pth, .safetensors or
 * .npz, masked weights 0; masks: .pth, .safetensors, .npz.  input_shape (input_rank numbers) fixes
 * the first input's shape in the .onnx.  Of a quantizer, the .onnx has integers: QuantizeLinear and
 * DequantizeLinear at the quantized places, or with qoperator QLinearConv and QLinearMatMul where
 * these fit; calibration is the scales and ranges of the layers as JSON. */
struct pare_export {
    const char *model, *onnx, *masks;
    const int64_t *input_shape;
    int input_rank;
    bool qoperator;
    const char *calibration;
    bool nbits; /* MatMulNBits (of com.microsoft) for weights by group, see quantizer group */
};
PARE_API int pare_compression_export(struct pare_compression *run, const struct pare_export *e,
                                     struct pare_err *err);

/* Multiply masks of a file into the model. */
PARE_API int pare_apply_masks(struct pare_model *model, const char *masks, struct pare_err *err);

PARE_API void
pare_compression_free(struct pare_compression *run); /* NULL is fine; the model keeps its weights */

/* ---- smaller models ------------------------------------------------------------------------ */

/* Take the channels out of a model whose weights are 0 there, so that it is really smaller and
 * computes the same.  All may be left 0. */
struct pare_speedup_opts {
    int64_t round_to;             /* keep channels as multiples of this, by keeping more */
    const struct pare_tensor *in; /* shapes of the inputs, and what to verify with where there is
                                     data; NULL: as the model declares, a batch of 1 */
    bool unverified;              /* do not run both models to compare them */
    double tolerance;             /* largest difference, relative to the largest output; 0: 1e-4 */
    int threads;                  /* 0: all cores */
    uint64_t seed;                /* of random inputs */

    /* What to verify with, instead of that: called with run = 0 .. runs - 1, fills in inputs of the
     * shapes above, whose memory is there. */
    int (*feed)(void *user, int run, struct pare_tensor *in, struct pare_err *err);
    void *user;
    int runs;
};

/* A layer before and after.  Of a layer that stays as it is though some of its channels could be
 * missed, `why` says who wants them; else it is NULL. */
struct pare_speedup_layer {
    const char *name, *type;
    int64_t in, in_left, out, out_left; /* channels; -1: it has none */
    int64_t empty;                      /* output channels whose weights are all 0 */
    int64_t params, params_left;
    double macs, macs_left; /* -1: not known */
    const char *why;
    bool gone; /* nothing depends on it any more */
};

struct pare_speedup_report {
    int n_layers;
    struct pare_speedup_layer *layer;
    int64_t params, params_left;
    double macs, macs_left;
    int nodes, nodes_left;
    bool verified;
    double max_abs, max_rel; /* of all outputs, the second relative to the largest of each */
};

/* `masked` must outlive *smaller, which shares what did not change.  The report's memory comes
 * from the arena; r may not be NULL.  When the two models differ, that is an error, which names the
 * first value that does, and *smaller is NULL. */
PARE_API int pare_speedup(const struct pare_model *masked, const struct pare_speedup_opts *opts,
                          struct pare_arena *a, struct pare_model **smaller,
                          struct pare_speedup_report *r, struct pare_err *err);

#ifdef __cplusplus
}
#endif

#endif
