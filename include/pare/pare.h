/* pare.h - load, inspect, run and save ONNX models; the base of all other headers.
 *
 * The other headers build on this one:
 *   <pare/data.h>      data sets: files by name, arrays in memory, callbacks
 *   <pare/train.h>     training, fine-tuning, distillation, evaluation
 *   <pare/compress.h>  prune, quantize, shrink and compress a model in one call each
 *   <pare/session.h>   the same step by step, with hooks into a training loop of your own
 *   <pare/analyze.h>   cost of layers, sensitivity to pruning, quantization error
 *   <pare/plugin.h>    write your own pruner or quantizer
 *
 * Conventions, everywhere:
 *   - A function that can fail returns 0, or a nonzero enum pare_code, and leaves a complete
 *     sentence in *err; err may be NULL.  After a failure, output arguments are NULL or
 *     unchanged, and nothing needs to be freed.
 *   - Objects come from pare_X_new(), pare_X_load() or pare_X_open() and are freed by
 *     pare_X_free(), which accepts NULL.  They count references to the objects that they use, so
 *     they can be freed in any order.
 *   - Memory that a function returns belongs to the object or to the arena that it came from;
 *     nothing is passed to free().
 *   - Tensors are contiguous and row-major; shapes are written (N, C, H, W).
 *   - The first field of an options struct is `size`: set it to sizeof(the struct), so that fields
 *     can be appended without breaking compiled programs.  0 means the same, for programs that are
 *     compiled together with the library.  All other fields may be 0, which means the default.
 *   - Different objects may be used by different threads at the same time.  One object must not be
 *     used by two threads at a time; that includes a model and a plan, training or compression
 *     made from it.  Two plans of one model may run in two threads.
 *   - The library does not print, exit or change the signal handlers.  The one thing that is
 *     shared by all of a process is the count and the limit of the memory of all arenas.
 */
#ifndef PARE_PARE_H
#define PARE_PARE_H

#include <pare/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models --------------------------------------------------------------- */

struct pare_model;

/* Read an .onnx file.  Weights stay in the file's pages until they are needed, so the file
 * must not be changed while the model lives; if it gets shorter, reading it raises SIGBUS. */
PARE_API int pare_model_load(const char *path, struct pare_model **model, struct pare_err *err);

/* The same with options; opts may be NULL. */
struct pare_load_opts {
    size_t size;             /* sizeof(struct pare_load_opts), or 0 */
    bool keep_training_mode; /* BatchNormalization and Dropout in training mode are not changed */
    bool as_is;              /* no intake: the model is computed as the file has it */

    /* Layers with weights in half or double precision compute in float32, so that they can be
     * compressed and trained.  A changed model is saved with weights in the type of the file. */
    bool widen;
};
PARE_API int pare_model_load_with(const char *path, const struct pare_load_opts *opts,
                                  struct pare_model **model, struct pare_err *err);

/* What intake changed on load, one entry per step; docs/formats.md lists the steps.  Saving writes
 * the changes only if something else changes the model, too.  Returns the number of entries. */
struct pare_intake_count {
    const char *name, *what; /* "hoist_constants", "weights of Constant nodes made initializers" */
    const char *note;        /* what a user should be told if count is not 0; NULL: nothing */
    int64_t count;           /* how many were changed; 0: the model did not need the step */
};
PARE_API int pare_model_intake(const struct pare_model *model,
                               const struct pare_intake_count **list);

/* Read a model from memory, which must outlive the model.  External data is looked for in the
 * folder `dir`; NULL refuses external data. */
PARE_API int pare_model_parse(const void *data, size_t len, const char *dir,
                              struct pare_model **model, struct pare_err *err);

struct pare_save_opts {
    size_t size;           /* sizeof(struct pare_save_opts), or 0 */
    bool external;         /* write weights to the file `<name>.data` next to the model; always done
                              when the model would exceed 2 GB */
    size_t external_above; /* with external: tensors of at least this many bytes; 0: 1024 */
};

/* Write a model: to a temporary file in the same folder, which is synced and renamed.  opts may be
 * NULL. */
PARE_API int pare_model_save(const struct pare_model *model, const char *path,
                             const struct pare_save_opts *opts, struct pare_err *err);

/* The bytes that pare_model_save() would write, weights included, in memory of the arena. */
PARE_API int pare_model_pack(const struct pare_model *model, struct pare_arena *a, void **bytes,
                             size_t *len, struct pare_err *err);

/* A network of `pare new` with fresh weights; the input is (N, c, h, w). */
PARE_API int pare_model_new(const char *network, const int64_t chw[3], int64_t classes,
                            uint64_t seed, struct pare_model **model, struct pare_err *err);

PARE_API void pare_model_retain(struct pare_model *model); /* one more pare_model_free() is due */
PARE_API void pare_model_free(struct pare_model *model);

/* The order of axes of images: channels second or last. */
enum pare_layout { PARE_LAYOUT_UNKNOWN, PARE_NCHW, PARE_NHWC };

/* An input or output as the file declares it. */
struct pare_io {
    const char *name;
    enum pare_dtype dtype;
    int rank;                       /* -1: the file does not say */
    int64_t dim[PARE_MAX_RANK];     /* -1: free */
    const char *sym[PARE_MAX_RANK]; /* the name of a free dimension; NULL: it has none */
    enum pare_layout layout; /* of an input with four dimensions, from the graph or its sizes */
};

/* The number of inputs (outputs); *io are these, in the model's order. */
PARE_API int pare_model_inputs(const struct pare_model *model, const struct pare_io **io);
PARE_API int pare_model_outputs(const struct pare_model *model, const struct pare_io **io);

/* A layer: a node with constant weights, under the name that its author gave it. */
struct pare_model_layer {
    const char *name;          /* "layer1.0.conv1"; unique */
    const char *type;          /* PyTorch's name, "Conv2d" */
    const char *op;            /* ONNX's name, "Conv" */
    const char *weight, *bias; /* names of the initializers; NULL: it has none */
    int64_t params;            /* trained elements */
    double macs;               /* multiply-accumulates of one item; -1: not known */
};

/* The layers in the order of the graph; the list is in the arena.  Works on quantized models, too:
 * the weight is then the integer initializer. */
PARE_API int pare_model_list_layers(const struct pare_model *model, struct pare_arena *a,
                                    const struct pare_model_layer **layer, int *n,
                                    struct pare_err *err);

/* The value of an initializer, or of a constant, of the main graph.  t->data must not be written,
 * and is valid as long as the model. */
PARE_API int pare_model_tensor(const struct pare_model *model, const char *name,
                               struct pare_tensor *t, struct pare_err *err);

/* Replace the value of an initializer of the main graph by a tensor of its type and shape, which is
 * copied.  Plans that exist keep the old value. */
PARE_API int pare_model_set_tensor(struct pare_model *model, const char *name,
                                   const struct pare_tensor *t, struct pare_err *err);

/* Names of all initializers of the main graph; the list is in the arena. */
PARE_API int pare_model_list_tensors(const struct pare_model *model, struct pare_arena *a,
                                     const char *const **name, int *n, struct pare_err *err);

/* How a tensor around a layer is quantized:  x = scale * (q - zero_point). */
struct pare_model_quant {
    enum pare_dtype dtype;         /* of the integers; PARE_NONE: this tensor is float */
    struct pare_tensor scale;      /* float32: one number, or one for each index of `axis`;
                                    * data NULL: dynamic, or not found in the graph */
    struct pare_tensor zero_point; /* of `dtype`, uint8 for uint2 and uint4; data NULL: all 0 */
    int axis;                      /* -1: one scale for all */
    int64_t group;                 /* elements along `axis` that share a scale; 0: one each */
    bool dynamic; /* scale and zero point are computed from the values at run time */
};

/* The quantization of a layer's weight ('w'), input ('x'), output ('y') or recurrence weight ('r')
 * in a quantized model: QDQ, QLinear operators, integer operators after DynamicQuantizeLinear,
 * MatMulNBits.  Tensors must not be written. */
PARE_API int pare_model_layer_quant(const struct pare_model *model, const char *layer, char which,
                                    struct pare_model_quant *q, struct pare_err *err);

/* ---- running -------------------------------------------------------------- */

/* A model compiled for one set of input shapes.  It refers to the model's weights: after these have
 * changed (by training or pruning), make another plan. */
struct pare_plan;

/* Operands of the matrix products and convolutions of a plan: as they are, or rounded to bfloat16
 * (8 significant bits, the range of float32).  Sums and everything else are float32 always. */
enum pare_precision {
    PARE_PRECISION_F32,
    PARE_PRECISION_BF16, /* about twice as fast on CPUs with AVX512_BF16, slow on others */
    PARE_PRECISION_AUTO, /* bf16 if the CPU has it and the outputs for the plan's inputs (random
                            ones if opts.in has no data) differ by at most PARE_BF16_ERROR from
                            those of float32; else float32 */
};

/* Relative error of the outputs, as norm of the difference by norm of the float32 outputs. */
#define PARE_BF16_ERROR 0.02

struct pare_plan_opts {
    size_t size;                  /* sizeof(struct pare_plan_opts), or 0 */
    int threads;                  /* 0: all cores */
    int64_t batch;                /* size of free first dimensions; 0: 1 */
    const struct pare_tensor *in; /* shapes of the inputs in the model's order, data may be NULL;
                                     NULL: as the model declares, free dimensions are 1 */
    int n_in;                     /* of `in`: the number of the model's inputs */
    bool reference;               /* plain-C kernels only, no fusion: slow, for comparisons */

    /* Time the kernels that can run a layer and use the fastest.  This takes as long as a few runs.
     * Results differ in their last digits from those of other kernels. */
    bool tune;
    const char *choices; /* file of kernel choices to follow, which gets new ones; NULL: none */
    const char *cache;   /* folder where choices are kept for later plans; NULL: none */

    pare_progress_fn *progress; /* called while kernels are timed; NULL: none */
    void *user;
    enum pare_precision precision;
};

/* The user's folder for `cache`: $PARE_CACHE, else $XDG_CACHE_HOME/pare, else $HOME/.cache/pare.
 * NULL when PARE_CACHE is empty or none of them is set. */
PARE_API const char *pare_cache_folder(struct pare_arena *a);

/* opts may be NULL. */
PARE_API int pare_plan_new(const struct pare_model *model, const struct pare_plan_opts *opts,
                           struct pare_plan **plan, struct pare_err *err);

/* Run the plan on in[0..n_in), all inputs in the model's order.  out[0..n_out) receives views of
 * the first n_out outputs, which stay valid until the next run; n_out may be less or more than
 * the number of outputs. */
PARE_API int pare_plan_run(struct pare_plan *plan, const struct pare_tensor *in, int n_in,
                           struct pare_tensor *out, int n_out, struct pare_err *err);
PARE_API void pare_plan_free(struct pare_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
