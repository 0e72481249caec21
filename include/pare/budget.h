/* budget.h - compress a model to a budget of latency, size or multiply-accumulates.
 *
 *     struct pare_compress_budget_opts o = { .size = sizeof(o), .budget = "latency=0.5",
 *                                            .data = data };
 *     pare_compress_budget(model, &o, arena, &small, &report, &err);
 *
 * The search decides how many channels each dependency group keeps and which layers are int8, from
 * times of layers that are measured on this machine and from how much the loss is expected to
 * increase; then it removes, repairs, trains if asked to, rounds, and measures the result.
 */
#ifndef PARE_BUDGET_H
#define PARE_BUDGET_H

#include <pare/compress.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pare_compress_budget_opts {
    size_t size;             /* sizeof(struct pare_compress_budget_opts), or 0 */
    const char *budget;      /* "latency=0.5 size=400KB macs=0.6": without a unit a part of the
                         * original's, with one (us, ms, s; B, KB, MB; K, M, G) absolute; all
                         * hold.  NULL: none, so that max_drop must be given */
    double max_drop;         /* percentage points of accuracy that may be lost; 0: no bound */
    struct pare_data *data;  /* to search, repair and train with; needed */
    struct pare_data *valid; /* for `before` and `after` of the report; NULL: not evaluated */
    const char *methods;     /* "channels,int8" or one of them; NULL: both */
    const char *solver;      /* NULL: lagrange */
    int64_t finetune;        /* epochs of distillation from the original; 0: none */
    const char *train;       /* more options of `pare train`; NULL: none */
    int64_t batch;           /* of measured runs; 0: 1 */
    int threads;             /* 0: all cores */
    uint64_t seed;
    const char *table;          /* file of times instead of a measurement; NULL: measure */
    const char *cache;          /* folder of measured times and kernel choices; NULL: none */
    double seconds;             /* limit of measuring times of layers; 0: 60 */
    pare_progress_fn *progress; /* NULL: none */
    void *user;
    void (*say)(void *user, const char *line); /* one line for each stage; NULL: none */
    const char *runner; /* what the model must be fast in: a command that measures models (see
                         * docs/budget.md), "ort": node with onnxruntime-node; NULL: this engine */
    bool dry_run;       /* decide and predict, but build no model: *out is NULL, and `after` of the
                         * report's costs is of a model of the same shapes */
    double class_drop; /* percentage points that the accuracy of each class may lose; 0: no bound */
    double confidence; /* that the drop is at most max_drop, and that of classes class_drop, must
                         * hold with, in (0, 1); 0: what held-out items lose decides */
    const char *work;  /* folder for what an interrupted search has found, made if it is missing;
                         * NULL: none */
    bool resume;       /* take from `work` what a search with the same settings has found */
    const char *sensitivity; /* errors of channels and formats: "fisher", second-order estimates;
                              * "loss", these scaled to real losses of each group alone; "noise",
                              * the same with the noise of outputs; NULL: loss */
    double search_seconds;   /* of scoring candidates by their real loss, at most; 0: a number of
                              * candidates that depends on the model, so that equal tables of times
                              * give equal models; below 0: none */
};

enum pare_budget_kind {
    PARE_BUDGET_LATENCY,
    PARE_BUDGET_SIZE,
    PARE_BUDGET_MACS,
    PARE_BUDGET_KINDS
};

/* Microseconds, bytes, multiply-accumulates of one run. */
struct pare_budget_cost {
    double before, after;
    double predicted; /* of the model that was chosen */
    double limit;     /* infinite: none */
};

struct pare_compressed_layer {
    const char *name, *format;
    int64_t in, in_left, out, out_left; /* channels */
};

struct pare_compress_budget_report {
    struct pare_budget_cost cost[PARE_BUDGET_KINDS];
    struct pare_compressed_layer *layer;
    int n_layers;
    struct pare_metrics before, after; /* with `valid`; n is 0: not evaluated */
    int64_t held;                      /* items of `data` that decided, and nothing was fitted to */
    double held_before, held_after;    /* accuracy on them, in [0, 1]; -1: no class labels */
    double snr, divergence; /* outputs on them against the original's: dB; nats, NaN: no classes */
    int rounds;             /* models that were built and measured */
    bool budget_met, drop_met;

    struct pare_paired paired; /* on the held-out items; n is 0: no class labels */
    struct pare_paired final;  /* on `valid`, else the held-out items again; with confidence 0.95 */
    double cpu_share; /* part of the time in which measuring the result had the processor: far below
                       * 1, other programs were running and its latency is unreliable; 0: not
                       * measured here */
};

/* The nearest model is returned even if the report says that a limit or the bound is missed.
 * Memory of the report is from the arena. */
PARE_API int pare_compress_budget(struct pare_model *model,
                                  const struct pare_compress_budget_opts *opts,
                                  struct pare_arena *a, struct pare_model **out,
                                  struct pare_compress_budget_report *r, struct pare_err *err);

/* Remove the files of `work`, and the folder if it is empty then; after the model was saved.
 * Returns 0 if the folder is gone. */
PARE_API int pare_budget_work_remove(const char *folder);

#ifdef __cplusplus
}
#endif

#endif
