/* pipeline.h - prune and quantize as jobs: open, work, close; the commands and <pare/compress.h>
 * use these.
 */
#ifndef PARE_PIPELINE_PIPELINE_H
#define PARE_PIPELINE_PIPELINE_H

#include <pare/compress.h>

#include "../quant/half/half_precision.h"
#include "finetune.h"
#include "repair_choice.h"

/* How training runs: the command shows progress and handles signals, the library calls back. */
typedef int pare_job_train_fn(void *user, struct pare_finetune *f, struct pare_err *err);

/* ---- prune ---------------------------------------------------------------------------------- */

struct pare_prune_job {
    struct pare_prune_opts o;       /* data and training are in `tune` */
    const struct pare_given *given; /* options of the pruner */
    int n_given;
    struct pare_finetune tune;
    pare_job_train_fn *train;
    void *user;

    struct pare_model *found; /* by a search: tune.model is this one; NULL: the original */
    bool searched;            /* o.pruner and o.config are what a search found */
    struct pare_compression *compression;
    struct pare_metrics before, masked, after; /* n is 0: not evaluated */
    struct pare_model *dense;                  /* the original, with data */
    struct pare_repair_choice choice;          /* if repaired */
    struct pare_reconstruct_opts reconstruct;  /* if o.reconstruct is not NULL */
    bool repaired;                             /* ways to repair the model were tried */
    bool trained;
    bool recalibrated; /* statistics of normalizations are new */
};

/* The pruner that the options name, or the default. */
const char *pare_prune_pruner(const struct pare_prune_opts *o);

/* Wrap the layers of tune.model, which must be open; for checks.  Close it in any case. */
int pare_prune_open(struct pare_prune_job *j, struct pare_err *err);

/* Wrap the layers, make the masks, fine-tune, evaluate.  tune.model has the masked weights
 * afterward. */
int pare_prune_work(struct pare_prune_job *j, struct pare_err *err);
void pare_prune_close(struct pare_prune_job *j);

/* Searches for the sparsity of each layer (src/search/ defines them).  check() finds mistakes in
 * the options of the search that o.pruner names.  run() searches, on held-out items of the data,
 * and changes the job so that pare_prune_work() prunes as it found best: o.pruner is the base
 * pruner, o.config the sparsities, and tune.model another one if the search trained or shrank
 * it. */
int pare_search_check(const struct pare_prune_job *j, struct pare_err *err);
int pare_search_run(struct pare_prune_job *j, struct pare_err *err);

/* The base pruner of the search that o.pruner names. */
const char *pare_search_base(const struct pare_prune_job *j);

/* Metrics of the model as it is written. */
const struct pare_metrics *pare_prune_result(const struct pare_prune_job *j);

/* Mask the model without data, for estimates: as the pruner would, or a simple one in its place. */
int pare_prune_estimate(struct pare_prune_job *j, struct pare_err *err);

/* ---- quantize ------------------------------------------------------------------------------- */

struct pare_quantize_job {
    struct pare_quantize_opts o;    /* data and training are in `tune` */
    const struct pare_given *given; /* options of the quantizer */
    int n_given;
    struct pare_finetune tune;
    pare_job_train_fn *train;
    void *user;
    const char *load_calibration; /* file of scales; NULL: calibrate */
    struct pare_export files;     /* what is written; files.onnx is needed */
    void (*on_step)(void *user, const struct pare_budget_step *s); /* of mixed precision; or NULL */

    struct pare_model *folded;   /* or NULL: nothing was folded */
    struct pare_model *smoothed; /* or NULL: option "smooth" changed nothing */
    int smoothed_layers;         /* whose inputs it scaled; -1: the option is off */
    int64_t smoothed_items;      /* that rounding by the data may use then; 0: all */
    const char *smoothed_choice; /* what was measured with and without; NULL: there was no choice */
    struct pare_compression *compression;
    struct pare_metrics before, rounded, after; /* n is 0: not evaluated */
    double least;                               /* accuracy that o.max_drop allows */
    struct pare_budget_report budget;
    bool trained;
    const char *note;      /* what the preset leaves as it is, and why; or NULL */
    double bytes_after;    /* size of the written model with its external data */
    struct pare_half half; /* with a preset of half precision: there is no compression */
};

/* Does the preset convert to half precision instead of quantizing? */
bool pare_quantize_is_half(const struct pare_quantize_job *j);

/* Convert tune.model; *out is a new model.  With data, values beyond the range are found first. */
int pare_quantize_half(struct pare_quantize_job *j, struct pare_model **out, struct pare_err *err);

/* Bytes that the file becomes smaller by. */
double pare_half_saved(const struct pare_model *m);

/* Does the quantizer learn in training, of which there is none?  An error if there is data, so that
 * only a number of epochs is missing; else *untrained is true. */
int pare_quantize_check_training(const struct pare_quantize_job *j, bool *untrained,
                                 struct pare_err *err);

/* Does the quantizer train, by itself or because of the option "epochs"? */
bool pare_quantize_trains(const struct pare_quantize_job *j);

/* Fold BatchNormalization of tune.model where the options or the preset ask for it. */
int pare_quantize_fold(struct pare_quantize_job *j, struct pare_err *err);

/* Is the option of the quantizer given, by name or in the settings? */
bool pare_quantize_is_given(const struct pare_quantize_job *j, const char *name);

/* Options "smooth" and "awq": the model with scaled inputs takes the place of tune.model.  Preset
 * int8 without either: if the model normalizes rows, as transformers do, it is quantized with and
 * without, and the better one stays as j->compression. */
int pare_quantize_smooth(struct pare_quantize_job *j, struct pare_err *err);

/* Wrap the layers of tune.model, which must be open; for checks.  Close it in any case. */
int pare_quantize_open(struct pare_quantize_job *j, struct pare_err *err);

/* Wrap the layers, calibrate, train, write, evaluate. */
int pare_quantize_work(struct pare_quantize_job *j, struct pare_err *err);
void pare_quantize_close(struct pare_quantize_job *j);

/* Bytes that the weights of `model` take less when they are quantized as the options say. */
int pare_quantize_estimate(struct pare_quantize_job *j, double *saved, struct pare_err *err);

#endif
