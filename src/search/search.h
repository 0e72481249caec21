/* search.h - searches for the sparsity of each layer: what all of them share.
 *
 * A candidate is a base pruner and a sparsity for each part, which is a layer, or the layers that a
 * dependency group couples.  It is applied to a copy of the model, evaluated on items of the
 * training data that are held out of all training, and undone.  The history has one row for each
 * evaluation, in the order of the search; a search is a deterministic function of its options, the
 * seed and the performances so far, so an interrupted one continues by reading them from the file.
 */
#ifndef PARE_SEARCH_SEARCH_H
#define PARE_SEARCH_SEARCH_H

#include "../base/json.h"
#include "../base/rng.h"
#include "../compress/compression.h"
#include "../pipeline/pipeline.h"
#include "../pipeline/short_tuning.h"
#include "../prune/prune_method.h"

/* ---- options that all searches have --------------------------------------------------------- */

struct pare_search_opts {
    const char *base_algo, *optimize_mode, *experiment_data_dir, *resource;
    int64_t eval_items;
};

/* First rows of the option table of a search, whose struct starts with struct pare_search_opts. */
/* clang-format off */
#define PARE_SEARCH_AT(field) offsetof(struct pare_search_opts, field)
#define PARE_SEARCH_OPTS \
    PARE_TEXT("base_algo", PARE_SEARCH_AT(base_algo), "NAME", \
              "pruner that makes the masks: level, l1, l2, fpgm or another one that needs only " \
              "weights", "l1"), \
    PARE_CHOICE("optimize_mode", PARE_SEARCH_AT(optimize_mode), \
                "maximize the accuracy, or another metric of the task, on the held-out items, or " \
                "minimize the loss", "maximize", "maximize|minimize"), \
    PARE_TEXT("experiment_data_dir", PARE_SEARCH_AT(experiment_data_dir), "FOLDER", \
              "write search_history.csv and search_result.json here, and resume the search that " \
              "is here (default: no files; NNI: .)", NULL), \
    PARE_INT("eval_items", PARE_SEARCH_AT(eval_items), \
             "items of the training data that are held out to evaluate with, at most a fifth", \
             2000, 1, 1e15), \
    PARE_CHOICE("resource", PARE_SEARCH_AT(resource), \
                "what the sparsity is a fraction of: parameters or multiply-accumulates", \
                "params", "params|macs")
/* clang-format on */

/* ---- history -------------------------------------------------------------------------------- */

struct pare_history_row {
    double sparsity, performance;
    const char *config; /* config_list as JSON */
};

struct pare_history {
    struct pare_arena *arena;
    const char *folder; /* NULL: none */
    bool writes;        /* the first process */
    struct pare_history_row *row;
    int n, cap;
    int old; /* the first rows, which are from the file */
    int at;  /* rows that the search has asked for or added */
};

/* Read the rows of an earlier run; `identity` is JSON of what determines the search: an error if
 * the folder has another one. */
int pare_history_open(struct pare_history *h, const char *identity, struct pare_err *err);

/* The next row, if the file has it: an error if it is not of this candidate. */
int pare_history_find(struct pare_history *h, const char *config, double *performance, bool *found,
                      struct pare_err *err);
int pare_history_add(struct pare_history *h, const struct pare_history_row *row,
                     struct pare_err *err);

/* A performance as the file has it: a resumed search must take the same way. */
double pare_history_round(double performance);

/* search_result.json */
int pare_history_result(const struct pare_history *h, const struct pare_history_row *best,
                        struct pare_err *err);

/* ---- candidates ----------------------------------------------------------------------------- */

struct pare_search_layer {
    const char *name, *type;
    int part;
};

struct pare_search {
    struct pare_prune_job *job;
    const struct pare_search_opts *o; /* first member of the search's own */
    struct pare_arena *arena;
    struct pare_model *model;       /* copy to try candidates on; owned */
    struct pare_data *held, *rest;  /* items to evaluate with; the others */
    const struct pare_given *given; /* options of the base pruner */
    int n_given;
    struct pare_search_layer *layer;
    int n_layers;
    double *weight; /* by part: parameters, or multiply-accumulates, of its layers */
    int n;          /* parts */
    double target;  /* overall sparsity */
    double total;   /* resource of the original model; 0: not measured yet */
    bool channels;  /* masks are of output channels */
    struct pare_history history;
    struct pare_rng rng;
    double start;  /* time */
    int64_t tried; /* candidates so far */
    int64_t most;  /* expected number of candidates, for progress */

    /* Results. */
    double *best; /* by part; NAN in best[0]: none yet */
    double best_performance;
    struct pare_model *found;      /* owned; NULL: the original */
    const char *more;              /* see pare_candidate_config_with(); NULL: nothing */
    const char *pruner;            /* of the last step; NULL: the base pruner */
    const struct pare_given *last; /* its options; NULL: `given` */
    int n_last;
};

/* config_list as JSON; parts below 1e-6 are left out.  NULL: no memory.  more: further members of
 * each entry, ", \"rho\": 1e-4" for example. */
const char *pare_candidate_config(const struct pare_search *s, const double *sparsity);
const char *pare_candidate_config_with(const struct pare_search *s, const double *sparsity,
                                       const char *more);

/* Mask s->model; then restore it. */
int pare_candidate_open(struct pare_search *s, const double *sparsity, struct pare_compression **c,
                        struct pare_err *err);
void pare_candidate_close(struct pare_compression *c);

/* Accuracy, or loss, of a model on the held-out items. */
int pare_candidate_measure(struct pare_search *s, const struct pare_model *m, double *performance,
                           struct pare_err *err);

/* Mask, measure, restore, with the history: a candidate that it has is not measured. */
int pare_candidate_score(struct pare_search *s, const double *sparsity, double *performance,
                         struct pare_err *err);

/* The same; a better candidate than the best one replaces it. */
int pare_candidate_try(struct pare_search *s, const double *sparsity, double *performance,
                       struct pare_err *err);

/* How much worse performance a is than b; below 0: it is better. */
double pare_search_worse(const struct pare_search *s, double a, double b);

/* Is performance a better than b?  NAN is the worst. */
bool pare_search_better(const struct pare_search *s, double a, double b);

/* Report progress; an error if it is canceled. */
int pare_search_progress(struct pare_search *s, struct pare_err *err);

/* ---- the resource --------------------------------------------------------------------------- */

/* The fraction of the parameters or multiply-accumulates that the candidate removes: of channels,
 * what speedup would really remove from s->model, with the inputs of later layers; of single
 * weights, the masked ones. */
int pare_search_gone(struct pare_search *s, const double *sparsity, double *gone,
                     struct pare_err *err);

/* The least factor k for which the candidate to[i] = from[i] + (1 - from[i]) * k * step[i] removes
 * `aim`.  k * step[i] is at most 0.95; *reached is false if that is not enough. */
int pare_search_reach(struct pare_search *s, const double *from, const double *step, double aim,
                      double *to, bool *reached, struct pare_err *err);

/* Mask s->model permanently. */
int pare_candidate_apply(struct pare_search *s, const double *sparsity, struct pare_err *err);

/* Train a model for some steps, which may be 0, on the items that are not held out, with the
 * options of the job; weights that are 0 stay 0.  Then re-estimate the statistics of batch
 * normalizations, unless the option recalibrate is 0. */
int pare_search_tune(struct pare_search *s, struct pare_model *m, int64_t steps,
                     struct pare_err *err);

/* Wrap the layers of s->model once, as the base pruner would: parts, their weights, target. */
int pare_search_layers(struct pare_search *s, struct pare_err *err);

/* ---- simulated annealing ------------------------------------------------------------------- */

struct pare_annealing {
    const char *temperature;
    double start_temperature, stop_temperature, cool_down_rate, perturbation_magnitude;
    bool nni;
};

/* Rows of an option table; `at` is the offset of a struct pare_annealing. */
/* clang-format off */
#define PARE_ANNEALING_AT(at, field) ((at) + offsetof(struct pare_annealing, field))
#define PARE_ANNEALING_OPTS(at) \
    PARE_CHOICE("temperature", PARE_ANNEALING_AT(at, temperature), \
                "auto: from the differences of the first candidates; fixed: start_temperature to " \
                "stop_temperature", "auto", "auto|fixed"), \
    PARE_FLOAT("start_temperature", PARE_ANNEALING_AT(at, start_temperature), \
               "first temperature, if it is fixed", 100, 1e-12, 1e12), \
    PARE_FLOAT("stop_temperature", PARE_ANNEALING_AT(at, stop_temperature), \
               "end below this temperature, if it is fixed", 20, 1e-12, 1e12), \
    PARE_FLOAT("cool_down_rate", PARE_ANNEALING_AT(at, cool_down_rate), \
               "factor of the temperature after a step", 0.9, 1e-3, 0.9999), \
    PARE_FLOAT("perturbation_magnitude", PARE_ANNEALING_AT(at, perturbation_magnitude), \
               "largest change of a sparsity in the first step", 0.35, 1e-9, 1), \
    PARE_FLAG("nni", PARE_ANNEALING_AT(at, nni), \
              "NNI's rules: temperature fixed, cooled after accepted candidates only, a random " \
              "start, larger layers get higher sparsities, which are of masked weights", 0)
/* clang-format on */

int pare_annealing_check(const struct pare_annealing *o, struct pare_err *err);
int pare_annealing_run(struct pare_search *s, const struct pare_annealing *o, struct pare_err *err);

/* Does the model have statistics of batch normalizations, which masks make wrong? */
bool pare_search_has_statistics(const struct pare_search *s);

/* ---- searches ------------------------------------------------------------------------------- */

struct pare_search_kind {
    struct pare_algorithm algorithm; /* name, help and options; flags has PARE_USES_BASE */
    int (*check)(const void *opts, struct pare_err *err); /* NULL: any options */
    int (*run)(struct pare_search *s, struct pare_err *err);
};

#define PARE_SEARCH_ALGORITHM(name_, doc_, table, type)                                      \
    {                                                                                        \
        .abi = PARE_ABI, .size = sizeof(struct pare_algorithm), .name = name_, .doc = doc_,  \
        .opts = table, .opts_size = sizeof(type), .flags = PARE_USES_BASE | PARE_NEEDS_DATA, \
        .pruner = &(const struct pare_pruner)                                                \
        {                                                                                    \
            .size = sizeof(struct pare_pruner)                                               \
        }                                                                                    \
    }

#endif
