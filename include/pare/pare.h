/* pare.h - use the library: load a model, look at it, run it, train it, save it.
 *
 * To write your own pruner or quantizer, see <pare/plugin.h>.
 *
 * Conventions, everywhere:
 *   - a function that can fail returns 0, or a nonzero enum pare_code, and leaves a complete
 *     sentence in *err; err is never NULL;
 *   - memory belongs to an arena or to the object it came from; nothing returned by this API
 *     is passed to free();
 *   - tensors are contiguous and row-major; shapes are written (N, C, H, W);
 *   - the library never prints, never exits and keeps no state of its own.
 */
#ifndef PARE_PARE_H
#define PARE_PARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define PARE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define PARE_API __attribute__((visibility("default")))
#else
#define PARE_PRINTF(fmt, args)
#define PARE_API
#endif

PARE_API const char *pare_version(void);

/* ---- errors --------------------------------------------------------------- */

/* clang-format off */
#define PARE_ERRORS(X)                                 \
    X(NOMEM,       "out of memory")                    \
    X(IO,          "cannot read or write")             \
    X(FORMAT,      "malformed input")                  \
    X(SHAPE,       "shapes do not agree")              \
    X(CONFIG,      "invalid configuration")            \
    X(UNSUPPORTED, "not supported")                    \
    X(LIMIT,       "beyond a limit")                   \
    X(DYNAMIC,     "depends on data that is not known yet")
/* clang-format on */

enum pare_code {
    PARE_OK = 0,
#define X(name, text) PARE_E##name,
    PARE_ERRORS(X)
#undef X
};

struct pare_err {
    int code;      /* PARE_OK or one of PARE_E... */
    char msg[512]; /* what went wrong, where, and what was expected */
};

/* Record an error and return its code, so that callers can write
 * `return pare_fail(err, PARE_ESHAPE, "...")`. */
PARE_API int pare_fail(struct pare_err *err, int code, const char *fmt, ...) PARE_PRINTF(3, 4);

/* The same for PARE_ENOMEM: "no memory " and what for, as in pare_no_memory(err, "for the plan"). */
PARE_API int pare_no_memory(struct pare_err *err, const char *fmt, ...) PARE_PRINTF(2, 3);

/* Prefix the message with where we were, as the error travels up.  Returns the code unchanged;
 * does nothing when there is no error. */
PARE_API int pare_at(struct pare_err *err, int code, const char *fmt, ...) PARE_PRINTF(3, 4);

PARE_API const char *pare_code_text(int code);

/* For functions that own nothing but arena memory.  A function that owns a FILE, a lock or a
 * handle uses `goto out` instead, and never both. */
#define PARE_TRY(call)         \
    do {                       \
        int pare_rc_ = (call); \
        if (pare_rc_)          \
            return pare_rc_;   \
    } while (0)

/* ---- memory --------------------------------------------------------------- */

/* A growing region freed all at once. */
struct pare_arena;
struct pare_mark {
    void *block;
    size_t used;
};

PARE_API struct pare_arena *pare_arena_new(size_t block_bytes); /* NULL when out of memory */
PARE_API void pare_arena_free(struct pare_arena *a);            /* NULL is fine */
PARE_API void *pare_alloc(struct pare_arena *a, size_t n, size_t size);     /* zeroed, 64-aligned */
PARE_API void *pare_alloc_raw(struct pare_arena *a, size_t n, size_t size); /* not zeroed */
PARE_API struct pare_mark pare_mark(const struct pare_arena *a);
PARE_API void pare_reset(struct pare_arena *a, struct pare_mark m); /* drop all since m */

/* ---- tensors -------------------------------------------------------------- */

#define PARE_MAX_RANK 8

/* The numbers are those of ONNX's TensorProto.DataType. */
enum pare_dtype {
    PARE_NONE = 0,
    PARE_F32 = 1,
    PARE_U8 = 2,
    PARE_I8 = 3,
    PARE_U16 = 4,
    PARE_I16 = 5,
    PARE_I32 = 6,
    PARE_I64 = 7,
    PARE_STR = 8,  /* elements are struct pare_str */
    PARE_BOOL = 9, /* one byte, 0 or 1 */
    PARE_F16 = 10,
    PARE_F64 = 11,
    PARE_U32 = 12,
    PARE_U64 = 13,
    PARE_BF16 = 16,
    PARE_U4 = 21, /* in memory one byte an element; packed only in files */
    PARE_I4 = 22,
};

struct pare_str {
    const char *s; /* not terminated by a zero */
    size_t len;
};

/* A view.  It never owns `data`; the arena it came from does. */
struct pare_tensor {
    enum pare_dtype dtype;
    int rank;
    int64_t dim[PARE_MAX_RANK];
    void *data;
};

/* Fill in t and take zeroed memory for it from the arena. */
PARE_API int pare_tensor_new(struct pare_arena *a, struct pare_tensor *t, enum pare_dtype dtype,
                             int rank, const int64_t *dim, struct pare_err *err);
PARE_API int64_t pare_numel(const struct pare_tensor *t); /* 1 for a scalar */
PARE_API size_t pare_dtype_size(enum pare_dtype d);       /* bytes in memory; 0 if unknown */
PARE_API const char *pare_dtype_name(enum pare_dtype d);  /* "float32", "int64", ... */

static inline float *pare_f32(const struct pare_tensor *t)
{
    return (float *)t->data;
}
static inline int64_t *pare_i64(const struct pare_tensor *t)
{
    return (int64_t *)t->data;
}

/* ---- models --------------------------------------------------------------- */

struct pare_model;

/* Read an .onnx file.  Weights stay in the file's pages until they are needed, so the file
 * must not be changed while the model lives; when it gets shorter, reading it is a SIGBUS. */
PARE_API int pare_model_load(const char *path, struct pare_model **model, struct pare_err *err);

/* The same from memory, which must outlive the model.  External data is looked for in `dir`;
 * NULL refuses it. */
PARE_API int pare_model_parse(const void *data, size_t len, const char *dir,
                              struct pare_model **model, struct pare_err *err);

/* Where weights go: inside the file, or beside it in `<name>.data`. */
struct pare_save_opts {
    bool external;         /* write weights beside the file; forced when the file would pass 2 GB */
    size_t external_above; /* ... those of at least this many bytes; 0 means 1024 */
};

/* Write to a temporary file beside `path`, sync, rename.  opts may be NULL. */
PARE_API int pare_model_save(const struct pare_model *model, const char *path,
                             const struct pare_save_opts *opts, struct pare_err *err);
PARE_API void pare_model_free(struct pare_model *model); /* NULL is fine */

/* An input or output as the file declares it. */
struct pare_io {
    const char *name;
    enum pare_dtype dtype;
    int rank;                       /* -1 when the file does not say */
    int64_t dim[PARE_MAX_RANK];     /* -1 where it is free */
    const char *sym[PARE_MAX_RANK]; /* the free dimension's name, or NULL */
};

PARE_API int pare_model_inputs(const struct pare_model *model, const struct pare_io **io);
PARE_API int pare_model_outputs(const struct pare_model *model, const struct pare_io **io);

/* ---- running -------------------------------------------------------------- */

struct pare_plan;

struct pare_plan_opts {
    int threads;                  /* 0: all cores */
    int64_t batch;                /* for free first dimensions; 0 means 1 */
    const struct pare_tensor *in; /* shapes of the inputs in the model's order, or NULL */
    bool reference;               /* plain-C kernels only, no fusion: slow, for checking */

    /* Where several kernels can run a layer: time them, and use the fastest.  It takes as long as a
     * few runs.  Results differ in their last digits from those of other choices. */
    bool tune;
    const char *choices; /* a file of choices to follow, which gets those that are new; or NULL */
    const char *cache;   /* a folder where choices are kept for later plans; or NULL */
};

/* The user's folder for that: $PARE_CACHE, else $XDG_CACHE_HOME/pare, else $HOME/.cache/pare.  NULL
 * when PARE_CACHE is empty or nothing is set. */
PARE_API const char *pare_cache_folder(struct pare_arena *a);

/* Compile the model for one set of input shapes: infer, fold, fuse, lay out, place in memory.
 * The model must outlive the plan.  opts may be NULL. */
PARE_API int pare_plan_new(const struct pare_model *model, const struct pare_plan_opts *opts,
                           struct pare_plan **plan, struct pare_err *err);

/* Run it.  in[] and out[] are in the model's order; out[] receives views that stay valid until
 * the next run. */
PARE_API int pare_plan_run(struct pare_plan *plan, const struct pare_tensor *in,
                           struct pare_tensor *out, struct pare_err *err);
PARE_API void pare_plan_free(struct pare_plan *plan);

/* ---- training ------------------------------------------------------------- */

/* A model that learns from a data set.
 *
 *     pare_training_new(model, "digits", "optimizer=adam lr=2e-3 epochs=10", &l, &err);
 *     pare_training_run(l, say, NULL, &err);
 *     pare_model_save(model, "trained.onnx", NULL, &err);
 *
 * The model always has what was learned so far.  Model and learner must not be used by two threads
 * at a time. */
struct pare_training;

/* What an epoch came to. */
struct pare_epoch_result {
    int64_t epoch;         /* from 0 */
    double loss, accuracy; /* of the items as they were learned; accuracy in [0, 1] */
    bool validated;
    double valid_loss, valid_accuracy;
};

/* `data` and the settings are what `pare train` takes, the settings as words "name=value", or only
 * "name" for a switch; 'pare help train' lists them.  The model must outlive the learner. */
PARE_API int pare_training_new(struct pare_model *model, const char *data, const char *settings,
                               struct pare_training **learn, struct pare_err *err);
PARE_API void pare_training_free(struct pare_training *learn); /* NULL is fine */

/* All epochs, with validation, checkpoints and so on as the settings say.  `say` is called after
 * each epoch; when it returns false, training ends there.  It may be NULL. */
PARE_API int pare_training_run(struct pare_training *learn,
                               bool (*say)(void *user, const struct pare_epoch_result *r),
                               void *user, struct pare_err *err);

/* Loss and accuracy on the set that validates. */
PARE_API int pare_training_validate(struct pare_training *learn, struct pare_epoch_result *r,
                                    struct pare_err *err);

/* Or a loop of one's own:
 *
 *     for (epoch = 0; epoch < 10; epoch++) {
 *         pare_training_update_epoch(l, epoch, &err);
 *         while (!pare_training_next(l, &x, &y, &err) && x.data) {
 *             pare_training_forward(l, &x, &out, &err);
 *             pare_training_loss(l, &y, &loss, &err);
 *             pare_training_backward(l, &err);
 *             pare_training_optimize(l, &err);
 *             pare_training_step(l, &err);
 *         }
 *     }
 *
 * next() gives the next batch, and x.data NULL at the end of an epoch; batches from elsewhere do as
 * well.  optimize() changes the weights, at the learning rate that the schedule has for this step.
 * step() and update_epoch() tell whatever follows the training, such as a pruner, that a step is
 * done and that an epoch begins. */
PARE_API int pare_training_next(struct pare_training *learn, struct pare_tensor *x,
                                struct pare_tensor *y, struct pare_err *err);
PARE_API int pare_training_forward(struct pare_training *learn, const struct pare_tensor *x,
                                   struct pare_tensor *out, struct pare_err *err);
PARE_API int pare_training_loss(struct pare_training *learn, const struct pare_tensor *y,
                                double *loss, struct pare_err *err);
PARE_API int pare_training_backward(struct pare_training *learn, struct pare_err *err);
PARE_API int pare_training_optimize(struct pare_training *learn, struct pare_err *err);
PARE_API int pare_training_step(struct pare_training *learn, struct pare_err *err);
PARE_API int pare_training_update_epoch(struct pare_training *learn, int64_t epoch,
                                        struct pare_err *err);

/* A network of `pare new` with fresh weights; the input is (N, c, h, w). */
PARE_API int pare_model_new(const char *network, const int64_t chw[3], int64_t classes,
                            uint64_t seed, struct pare_model **model, struct pare_err *err);

#ifdef __cplusplus
}
#endif

#endif
