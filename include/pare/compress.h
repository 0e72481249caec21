/* compress.h - prune, quantize, shrink and compress a model in one call each.
 *
 *     struct pare_quantize_opts o = { .size = sizeof(o), .preset = "int8", .data = data };
 *     pare_model_load("net.onnx", &model, &err);
 *     pare_quantize(model, &o, &small, NULL, &err);
 *     pare_model_save(small, "net-int8.onnx", NULL, &err);
 *
 * Each function reads `model`, whose weights it may change, and returns another model in *out,
 * which has to be freed, too, in any order.  Reports may be NULL.  <pare/session.h> offers the same
 * in steps.
 */
#ifndef PARE_COMPRESS_H
#define PARE_COMPRESS_H

#include <pare/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shrink --------------------------------------------------------------------------------- */

struct pare_speedup_opts {
    size_t size;                  /* sizeof(struct pare_speedup_opts), or 0 */
    int64_t round_to;             /* keep multiples of this many channels; 0: 1 */
    const struct pare_tensor *in; /* shapes of the inputs, and inputs to verify with where data is
                                     not NULL; a free dimension of -1, or NULL: chosen */
    int n_in;                     /* of `in`: the number of the model's inputs */
    bool unverified;              /* do not run both models to compare them */
    double tolerance;             /* largest difference, relative to the largest output; 0: 1e-4 */
    int threads;                  /* 0: all cores */
    uint64_t seed;                /* of random inputs */

    /* Inputs to verify with, instead of `in`: called with run = 0 .. runs - 1, fills tensors of the
     * shapes above, whose memory is allocated.  NULL: none. */
    int (*feed)(void *user, int run, struct pare_tensor *in, struct pare_err *err);
    void *user;
    int runs;

    pare_progress_fn *progress; /* called before each run of the two models; NULL: none */
    void *progress_user;

    /* Other shapes of the inputs to compare at: n_more times n_in tensors without data.  feed()
     * fills them once each, as runs `runs` to runs + n_more - 1. */
    const struct pare_tensor *more;
    int n_more;
};

/* A layer before and after. */
struct pare_speedup_layer {
    const char *name, *type;
    int64_t in, in_left, out, out_left; /* channels; -1: it has none */
    int64_t empty;                      /* output channels whose weights are all 0 */
    int64_t params, params_left;
    double macs, macs_left; /* -1: not known */
    const char *why;        /* why channels were kept that could be removed; NULL: none were */
    bool gone;              /* removed: nothing depends on it */
    bool coupled; /* why: other layers need the channels, so they must be pruned together */
};

struct pare_speedup_report {
    int n_layers;
    struct pare_speedup_layer *layer;
    int64_t params, params_left;
    double macs, macs_left;
    int nodes, nodes_left;
    bool verified;
    double max_abs, max_rel; /* largest difference of all outputs, and of values that enter
                                discontinuous operators; relative to the largest value */

    /* Of outputs that follow discontinuous operators: the share of equal elements; -1: there is no
     * such output.  The type of the first such operator, or of random numbers; NULL: none. */
    double agreement;
    const char *discontinuous;
    const struct pare_tensor *in; /* input shapes at which MACs are counted; data is NULL */
    const char *shapes[2]; /* input shapes of the two comparisons; NULL or "": no free dimension */
    const char *one_size;  /* free dimensions of inputs of which the model accepts only one of the
                            * sizes that were tried, "dimension 1 'length' of input 'x' (512)";
                            * NULL: none */

    /* Relative difference of the masked model from itself with other rounding errors, which is
     * measured if max_rel is above 1e-4: four times as much is tolerated.  0: not measured. */
    double noise;
};

/* Remove the channels of a model whose weights are 0, so that it is smaller and computes the same.
 * The report's memory comes from the arena; r must not be NULL.  If the two models differ, that is
 * an error which names the first value that differs, and *smaller is NULL. */
PARE_API int pare_speedup(const struct pare_model *masked, const struct pare_speedup_opts *opts,
                          struct pare_arena *a, struct pare_model **smaller,
                          struct pare_speedup_report *r, struct pare_err *err);

/* ---- prune ---------------------------------------------------------------------------------- */

/* Data and training, common to prune and quantize.  It is part of other structs, so it keeps its
 * fields. */
struct pare_tuning {
    struct pare_data *data;     /* to calibrate and train with; NULL: none */
    struct pare_data *valid;    /* to evaluate with; NULL: no evaluation */
    const char *settings;       /* options of `pare train`, "epochs=2 lr=0.01"; NULL: no fine-tuning
                                beyond what the algorithm needs */
    struct pare_model *teacher; /* distill from this model while fine-tuning; NULL: none */
};

/* Repair without training, see struct pare_prune_opts. */
enum pare_repair_use {
    PARE_REPAIR_AUTO, /* with data, of pruners of channels that do not train */
    PARE_REPAIR_ON,   /* an error if it is not possible */
    PARE_REPAIR_OFF
};

/* Reconstruction: after masks and repair, the parameters that are left are trained for some steps
 * so that the outputs are the original's; no labels are needed. */
struct pare_reconstruct_opts {
    size_t size;   /* sizeof(struct pare_reconstruct_opts), or 0 */
    int64_t items; /* of the data, at most; 0: all except those held out */
    int64_t steps; /* of 32 items; 0: 500 */
    double rate;   /* the largest rate of Adam; 0: 0.001 */
};

struct pare_prune_opts {
    size_t size;        /* sizeof(struct pare_prune_opts), or 0 */
    const char *pruner; /* NULL: level, with speedup l1: level empties no channels */
    double sparsity;    /* fraction of the weights to remove in every layer that the pruner handles,
                           except layers that produce the outputs; 0: rule or config decides */
    const struct pare_rule *rule; /* config_list as an array; NULL: none */
    int n_rules;
    const char *config;                   /* config_list as JSON; NULL: none */
    const char *settings;                 /* options of the pruner; NULL: none */
    const struct pare_registry *registry; /* NULL: only built-in pruners */
    struct pare_tuning tuning;
    bool speedup; /* remove the channels that are masked, the same ones in coupled layers unless
                     settings has a mode; else weights become 0 */
    const struct pare_speedup_opts *shrink; /* with speedup; NULL: defaults */
    pare_progress_fn *progress;             /* NULL: none */
    void *user;
    enum pare_repair_use repair; /* fit the layers after removed channels to what is left, by least
                                    squares on the data, before any fine-tuning, where the outputs
                                    are then closer to the original's on items not fitted to */
    const struct pare_reconstruct_opts *reconstruct; /* then this, where it is closer; NULL: not */
};

struct pare_prune_report {
    struct pare_metrics before, masked, after; /* n is 0: not evaluated; masked: before a repair */
    int64_t weights, zeros;                    /* in the layers that were pruned */
    int64_t params, params_left;               /* of the model */
    double macs, macs_left;                    /* -1: not known */

    /* Signal-to-noise ratios of the outputs against the original's: as it is, with new statistics,
     * repaired, both, repaired with more damping; NaN: not tried.  What was kept, for example
     * "repair + statistics"; NULL: nothing was tried.  The number of layers that were repaired. */
    double repair_db[5];
    const char *repair_kept;
    int repaired;
    double reconstruct_db; /* the same of reconstruction, which repair_kept names if it was kept */
};

PARE_API int pare_prune(struct pare_model *model, const struct pare_prune_opts *opts,
                        struct pare_model **out, struct pare_prune_report *report,
                        struct pare_err *err);

/* ---- quantize ------------------------------------------------------------------------------- */

struct pare_quantize_opts {
    size_t size;           /* sizeof(struct pare_quantize_opts), or 0 */
    const char *preset;    /* see pare_quantize_presets(); NULL: rule or config, and quantizer */
    const char *quantizer; /* NULL: the preset's */
    const struct pare_rule *rule; /* config_list as an array; NULL: none */
    int n_rules;
    const char *config;                   /* config_list as JSON; NULL: none */
    const char *settings;                 /* options of the quantizer; NULL: none */
    const struct pare_registry *registry; /* NULL: only built-in quantizers */
    struct pare_tuning tuning;            /* preset int8 needs data */
    bool fold;                            /* fold BatchNormalization first, as preset int8 does */
    bool keep_zeros;                      /* weights that are 0 stay 0 */
    bool qoperator, nbits;                /* see struct pare_export */
    double max_drop; /* accuracy in [0, 1] that may be lost: worse layers get more bits or stay
                        float; needs tuning.valid; 0: no bound */
    pare_progress_fn *progress; /* NULL: none */
    void *user;
    bool dynamic;        /* see struct pare_export; preset int8-dynamic sets it */
    const char *compute; /* presets fp16 and bf16: "half" or "float" computation; NULL: half for
                            fp16, float for bf16 */
};

struct pare_quantize_report {
    struct pare_metrics before, after; /* n is 0: not evaluated */
    int layers, tensors;               /* quantized */
    int left_float; /* tensors that stay float because quantization would destroy them */
    double snr_db,
        cosine;         /* of the outputs against the float model's, on tuning.data; NaN: no data */
    char worst[3][64];  /* layers with the most noise, the worst first; empty: fewer */
    double worst_db[3]; /* their signal-to-noise ratio */
};

PARE_API int pare_quantize(struct pare_model *model, const struct pare_quantize_opts *opts,
                           struct pare_model **out, struct pare_quantize_report *report,
                           struct pare_err *err);

/* Names of presets of pare_quantize(); the list ends with NULL. */
PARE_API const char *const *pare_quantize_presets(void);

/* Fold BatchNormalization into the convolutions before them; *out is `model` itself, with one more
 * reference, if there is none to fold. */
PARE_API int pare_model_fold(struct pare_model *model, struct pare_model **out,
                             struct pare_err *err);

/* ---- compress ------------------------------------------------------------------------------- */

/* A whole recipe: prune channels, shrink, fine-tune with distillation, quantize.  budget.h searches
 * for a model instead. */
struct pare_compress_opts {
    size_t size;        /* sizeof(struct pare_compress_opts), or 0 */
    const char *preset; /* "tiny": 1/4 of the channels, 15 epochs, int8; "balanced": half of
                                     * them, 5 epochs, int8; "int8"; NULL: balanced */
    struct pare_data *data, *valid; /* data is needed; valid NULL: no evaluation */
    const char *train;              /* more options of `pare train`, "batch=32"; NULL: none */
    int threads;                    /* 0: all cores */
    uint64_t seed;
    pare_progress_fn *progress; /* NULL: none */
    void *user;
    double max_drop; /* an error if the accuracy drops by more percentage points; 0: no limit */
};

struct pare_compress_report {
    struct pare_metrics before, after; /* n is 0: not evaluated */
    int64_t params, params_left;
    double macs, macs_left;
};

PARE_API int pare_compress(struct pare_model *model, const struct pare_compress_opts *opts,
                           struct pare_model **out, struct pare_compress_report *report,
                           struct pare_err *err);

#ifdef __cplusplus
}
#endif

#endif
