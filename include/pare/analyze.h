/* analyze.h - what compression would do to each layer: cost, sensitivity, quantization error.
 *
 *     struct pare_sensitivity_opts o = { .size = sizeof(o), .pruner = "l1" };
 *     pare_analyze_sensitivity(model, data, &o, arena, &report, &err);
 *
 * The model is not changed.  Memory of reports is in the arena.  opts may be NULL: all defaults.
 * Lists of layers end with NULL; an entry is a name, or "re:" and a regular expression.
 */
#ifndef PARE_ANALYZE_H
#define PARE_ANALYZE_H

#include <pare/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cost ------------------------------------------------------------------------------------ */

struct pare_count_opts {
    size_t size;                  /* sizeof(struct pare_count_opts), or 0 */
    const struct pare_tensor *in; /* shapes of the inputs; NULL: as the model declares, one item */
    int n_in;                     /* of `in`: the number of the model's inputs */
    bool full; /* also biases, normalizations, pooling and resizing; else what NNI counts */
};

struct pare_count_layer {
    const char *name, *type;
    struct pare_tensor weight, out; /* shapes; dtype PARE_NONE: none, or not known */
    double macs;                    /* multiply-accumulates of one item; -1: not known */
    int64_t params;
};

struct pare_count_report {
    struct pare_count_layer *layer;
    int n_layers, unknown; /* unknown: layers whose macs are not known */
    double macs;
    int64_t params;
};

PARE_API int pare_analyze_count(const struct pare_model *model, const struct pare_count_opts *opts,
                                struct pare_arena *a, struct pare_count_report *report,
                                struct pare_err *err);

/* ---- sensitivity ----------------------------------------------------------------------------- */

/* Prune one layer at a time to each sparsity and evaluate the model on the data. */
struct pare_sensitivity_opts {
    size_t size;                          /* sizeof(struct pare_sensitivity_opts), or 0 */
    const char *pruner;                   /* one that needs no data; NULL: l1 */
    const char *settings;                 /* options of the pruner; NULL: none */
    const struct pare_registry *registry; /* NULL: only built-in pruners */
    const double *sparsity;               /* ascending; NULL: 0.1 to 0.9 */
    int n_sparsities;
    const char *const *layers; /* NULL: all that the pruner can prune */
    const char *metric;        /* "top-1", "mean-iou", "loss", ...; NULL: the task's first one */
    const char *loss;          /* NULL: that of the task */
    const char *early_stop;    /* leave a layer when the metric is below ("minimize") or above
                                  ("maximize") the value, or has "dropped" or "raised" by more than
                                  it; NULL: never */
    double early_stop_value;
    int threads; /* 0: all cores */
    uint64_t seed;
    pare_progress_fn *progress; /* called after each evaluation; NULL: none */
    void *user;
};

struct pare_sensitivity_report {
    double base; /* metric of the model as it is */
    int n_layers, n_sparsities;
    const char **name, **type; /* of each layer */
    double *already;           /* of each layer: fraction of its units that are 0 already */
    double *sparsity;
    double *metric; /* (n_layers, n_sparsities); NaN: not measured */
};

PARE_API int pare_analyze_sensitivity(const struct pare_model *model, const struct pare_data *data,
                                      const struct pare_sensitivity_opts *opts,
                                      struct pare_arena *a, struct pare_sensitivity_report *report,
                                      struct pare_err *err);

/* ---- quantization error ---------------------------------------------------------------------- */

/* Quantize weight and input of one layer at a time. */
struct pare_quant_error_opts {
    size_t size;         /* sizeof(struct pare_quant_error_opts), or 0 */
    const int64_t *bits; /* NULL: 8 and 4 */
    int n_bits;
    const char *const *layers; /* NULL: all convolutions and linear layers */
    bool weights_only;
    int threads;                /* 0: all cores */
    pare_progress_fn *progress; /* called before each layer and bit width; NULL: none */
    void *user;
};

struct pare_quant_error {
    double weight_db, out_db, out_cos; /* signal to noise in dB, infinite: no error; and cosine: of
                                          the layer's weight and output */
    double end_db, end_cos;            /* at the model's first output */
};

struct pare_quant_error_report {
    int n_layers, n_bits;
    const char **name, **type; /* of each layer */
    int64_t *bits;
    struct pare_quant_error *item; /* (n_layers, n_bits) */
};

/* in[0..n_in) are the model's inputs, in its order. */
PARE_API int pare_analyze_quantization(const struct pare_model *model, const struct pare_tensor *in,
                                       int n_in, const struct pare_quant_error_opts *opts,
                                       struct pare_arena *a, struct pare_quant_error_report *report,
                                       struct pare_err *err);

#ifdef __cplusplus
}
#endif

#endif
