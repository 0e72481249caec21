/* train.h - train and evaluate models.
 *
 *     struct pare_training_opts o = { .size = sizeof(o), .data = train, .valid = test,
 *                                     .settings = "optimizer=adam lr=2e-3 epochs=10" };
 *     pare_training_new(model, &o, &t, &err);
 *     pare_training_run(t, on_epoch, NULL, &err);
 *     pare_model_save(model, "trained.onnx", NULL, &err);
 *
 * The model always has the weights that were trained so far.
 */
#ifndef PARE_TRAIN_H
#define PARE_TRAIN_H

#include <pare/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- evaluation ------------------------------------------------------------- */

/* Results by class. */
struct pare_class_metrics {
    int64_t n;                    /* number of classes; 0: there are no class labels */
    const int64_t *items, *right; /* of each class: items, and those that top-1 finds */
    const char *const *name;      /* NULL: the classes have no names */
    bool areas; /* a segmentation: `items` are positions that labels or output give the class,
                   `right` those where both do */
};

struct pare_evaluate_opts {
    size_t size;      /* sizeof(struct pare_evaluate_opts), or 0 */
    int threads;      /* 0: all cores */
    int64_t batch;    /* 0: the data set's */
    const char *loss; /* NULL: that of the task */
    pare_progress_fn *progress;
    void *user;
    const struct pare_given *given; /* options of the loss, as `pare eval` takes them */
    int n_given;
    bool tune;                          /* these three: see struct pare_plan_opts */
    const char *choices, *cache;        /* NULL: none */
    struct pare_class_metrics *classes; /* receives the results by class; NULL: not wanted */
    struct pare_arena *arena;           /* with classes: memory for its lists */
    const char *task, *metric;          /* as --task and --metric; NULL: derived */
    enum pare_precision precision;      /* see struct pare_plan_opts */
};

#define PARE_METRIC_VALUES 8 /* maximum number of metrics of a task */

struct pare_metric_value {
    const char *name; /* "top-1", "mean-iou", "mse", ... */
    double value;     /* NAN: undefined for these labels */
    bool percent;     /* a fraction in [0, 1] */
    bool lower_is_better;
};

struct pare_metrics {
    int64_t n;         /* items */
    double loss;       /* mean over all items */
    double top1, top5; /* fraction of items, in [0, 1]; -1: there are no class labels */
    double seconds;    /* spent running the model */
    const char *task;  /* "classification", "regression", ...; NULL: not evaluated */
    int n_values;      /* metrics of the task, the one that selects the best epoch first */
    struct pare_metric_value value[PARE_METRIC_VALUES];
};

/* Run a model over a data set with labels.  opts may be NULL. */
PARE_API int pare_evaluate(const struct pare_model *m, const struct pare_data *data,
                           const struct pare_evaluate_opts *opts, struct pare_metrics *metrics,
                           struct pare_err *err);

/* ---- comparison ------------------------------------------------------------- */

struct pare_agreement_opts {
    size_t size;   /* sizeof(struct pare_agreement_opts), or 0 */
    int threads;   /* 0: all cores */
    int64_t batch; /* 0: the data set's */
    pare_progress_fn *progress;
    void *user;
    enum pare_precision precision; /* of the model; the other one is in float32 */
};

/* How closely the outputs of a model agree with those of another one. */
struct pare_agreement {
    int64_t n;             /* items */
    double snr;            /* signal-to-noise ratio of all outputs in dB; infinite: no difference,
                              NaN: outputs that are not numbers, or no element to compare */
    double cosine;         /* of each item's output, mean over items and outputs */
    double max_difference; /* largest difference of two elements */
    double same_top1;      /* fraction of items whose largest score is the same one; -1: the first
                              output is not (N, classes) */
    int64_t unequal;       /* runs in which an output has another number of rows, for example of
                              detected objects; such outputs are not compared */
    int64_t runs;          /* batches, or items that run one by one */
    int64_t rows, reference_rows; /* of the first output that differs so, in all runs */
    double kl; /* mean Kullback-Leibler divergence of the model's class probabilities from the
                  other one's, in nats; NaN: the first output is not (N, classes) */
};

/* Run both models over a data set, which needs no labels.  opts may be NULL. */
PARE_API int pare_compare(const struct pare_model *m, const struct pare_model *reference,
                          const struct pare_data *data, const struct pare_agreement_opts *opts,
                          struct pare_agreement *agreement, struct pare_err *err);

/* ---- paired comparison ------------------------------------------------------- */

#define PARE_HASH_TEXT 65 /* SHA-256 in hexadecimal digits, and the terminating zero */

struct pare_paired_opts {
    size_t size;   /* sizeof(struct pare_paired_opts), or 0 */
    int threads;   /* 0: all cores */
    int64_t batch; /* 0: the data set's */
    pare_progress_fn *progress;
    void *user;
    double confidence; /* of the bounds, in (0, 1); 0: 0.95 */
    bool early;        /* items in random order; end as soon as it is known, with this confidence,
                          whether the drop is at most max_drop */
    double max_drop;   /* with early: a fraction in [-1, 1] */
};

/* Accuracy that a model loses against the original, item by item. */
struct pare_paired {
    int64_t n;          /* items that were compared */
    int64_t right;      /* that the model gets right */
    int64_t b, d;       /* right only with the original, right only with the model */
    double drop, error; /* (b - d) / n, and its standard error */
    double bound;       /* upper confidence bound of the drop */
    int64_t classes;    /* with items */
    int64_t worst;      /* class with the largest drop, the first of several */
    double worst_drop;  /* of the items of this class */
    double class_bound; /* largest bound of a class; holds for all classes together */
    int decided;        /* with early: 1: the drop is at most max_drop, -1: it is larger, 0: not
                            decided */
    char data_sha256[PARE_HASH_TEXT]; /* of items and labels, in their order; "" with early */
};

/* Run both models over a data set with class labels; `original` may be m itself, which then runs
 * once.  opts may be NULL. */
PARE_API int pare_compare_paired(const struct pare_model *m, const struct pare_model *original,
                                 const struct pare_data *data, const struct pare_paired_opts *opts,
                                 struct pare_paired *paired, struct pare_err *err);

/* What was measured when the model was certified, in its metadata as "pare.certificate". */
struct pare_certificate {
    char original_sha256[PARE_HASH_TEXT]; /* of the original model's file */
    char model_sha256[PARE_HASH_TEXT];    /* of this model without its certificate */
    char data_sha256[PARE_HASH_TEXT];
    int64_t n, b, d, right;
    double drop, bound, confidence;
    char version[32]; /* of Pare */
};

/* Store a certificate in the model, to be saved with it; its model_sha256 and version are set. */
PARE_API int pare_certificate_write(struct pare_model *m, struct pare_certificate *c,
                                    struct pare_err *err);

/* Read the model's certificate; *found false: it has none.  An error if it is malformed, or if the
 * model was changed since. */
PARE_API int pare_certificate_read(const struct pare_model *m, struct pare_certificate *c,
                                   bool *found, struct pare_err *err);

/* ---- training --------------------------------------------------------------- */

struct pare_training;

struct pare_training_opts {
    size_t size;                    /* sizeof(struct pare_training_opts), or 0 */
    struct pare_data *data, *valid; /* to train with, NULL: batches come from a loop of your own;
                                       to validate with, NULL: no validation */

    /* Options of `pare train`: pairs, or words "name=value" (or only "name" for a switch).  Later
     * ones win.  The texts of the pairs must outlive the training; the array `given` itself and
     * `settings` are not needed after pare_training_new(). */
    const struct pare_given *given;
    int n_given;
    const char *settings; /* NULL: none */

    struct pare_model *teacher; /* distill from this model; NULL: none */
    pare_progress_fn *progress; /* called after each batch; NULL: none */
    void *user;
    int64_t epoch_steps; /* without data: batches of an epoch, for the schedule of the learning
                            rate; 0: the rate is constant */
};

/* The result of an epoch. */
struct pare_epoch_result {
    int64_t epoch;         /* from 0 */
    double loss, accuracy; /* on the training items; accuracy in [0, 1], -1: no classes */
    bool validated;
    double valid_loss, valid_accuracy;
    struct pare_metric_value valid_metric; /* selects the best epoch; no name: the loss does */
};

PARE_API int pare_training_new(struct pare_model *model, const struct pare_training_opts *opts,
                               struct pare_training **training, struct pare_err *err);

/* The same with a data set that is named, as `pare train --data` takes it; validation uses the
 * setting "valid", else what "holdout" keeps, else the set's test part.  settings may be NULL. */
PARE_API int pare_training_open(struct pare_model *model, const char *data, const char *settings,
                                struct pare_training **training, struct pare_err *err);
PARE_API void pare_training_free(struct pare_training *training);

/* All epochs, with validation and checkpoints as the settings say.  on_epoch() is called after each
 * epoch and ends the training when it returns false; it may be NULL. */
PARE_API int pare_training_run(struct pare_training *training,
                               bool (*on_epoch)(void *user, const struct pare_epoch_result *r),
                               void *user, struct pare_err *err);

/* Loss and accuracy on the validation set. */
PARE_API int pare_training_validate(struct pare_training *training, struct pare_epoch_result *r,
                                    struct pare_err *err);

/* Re-estimate the statistics of batch normalizations after weights changed: the average over at
 * most `batches` batches, in training mode.  Weights stay as they are.  *done, which may be NULL:
 * batches that were averaged; 0 if the model has no statistics. */
PARE_API int pare_training_recalibrate(struct pare_training *training, int64_t batches,
                                       int64_t *done, struct pare_err *err);

/* Or a loop of your own:
 *
 *     for (epoch = 0; epoch < 10; epoch++) {
 *         pare_training_update_epoch(t, epoch, &err);
 *         while (!pare_training_next(t, &x, &y, &err) && x.data) {
 *             pare_training_forward(t, &x, 1, &out, &err);
 *             pare_training_loss(t, &y, &loss, &err);
 *             pare_training_backward(t, &err);
 *             pare_training_optimize(t, &err);
 *             pare_training_step(t, &err);
 *         }
 *     }
 *
 * next() returns the next batch of the first input, and x.data NULL at the end of an epoch; batches
 * from elsewhere can be used as well, also without a data set.  optimize() updates the weights with
 * the learning rate that the setting "schedule" has for this step of "epochs"; it is constant
 * unless that is set.  step() and update_epoch() call the hooks of a compression that follows the
 * training. */
PARE_API int pare_training_next(struct pare_training *training, struct pare_tensor *x,
                                struct pare_tensor *y, struct pare_err *err);
PARE_API int pare_training_forward(struct pare_training *training, const struct pare_tensor *in,
                                   int n_in, struct pare_tensor *out, struct pare_err *err);
PARE_API int pare_training_loss(struct pare_training *training, const struct pare_tensor *y,
                                double *loss, struct pare_err *err);
PARE_API int pare_training_backward(struct pare_training *training, struct pare_err *err);
PARE_API int pare_training_optimize(struct pare_training *training, struct pare_err *err);
PARE_API int pare_training_step(struct pare_training *training, struct pare_err *err);
PARE_API int pare_training_update_epoch(struct pare_training *training, int64_t epoch,
                                        struct pare_err *err);

#ifdef __cplusplus
}
#endif

#endif
