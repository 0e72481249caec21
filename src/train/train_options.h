/* train_options.h - training options: from "name=value" settings to the structs that start a
 * training. */
#ifndef PARE_TRAIN_TRAIN_OPTIONS_H
#define PARE_TRAIN_TRAIN_OPTIONS_H

#include "../base/option_groups.h"
#include "train.h"

/* Options of the training loop; loss, optimizer and schedule have their own. */
struct pare_train_options_conf {
    int64_t epochs;
    double lr;                                         /* 0: that of the optimizer */
    const char *optimizer, *schedule, *loss, *teacher; /* schedule NULL: cosine */
    int64_t warmup;                                    /* -1: that of the schedule */
    const char *task, *metric;                         /* "auto": derived */
    double warmup_factor, clip_norm, clip_value;
    struct pare_strs freeze, distill_layers;
    int64_t patience;
    bool last;
    double max_drop; /* percentage points; below 0: no limit */
    const char *checkpoint;
    int64_t checkpoint_steps;
    bool resume, sync_bn;
    int64_t seed, threads;
    const char *precision;
    int64_t recalibrate; /* batches; 0: none */
    double ema, mixup;   /* 0: none */
};

struct pare_train_options {
    struct pare_train_options_conf c;
    /* Without teacher (c.teacher is its file) and without processes: the caller sets them. */
    struct pare_trainer_opts trainer;
    struct pare_train_conf train;
    struct pare_data_opts data;
    bool no_labels; /* the data is for calibration, which needs no labels */

    struct pare_goal_opts goal;  /* what the options say; with data, the task that was found */
    struct pare_task_goal found; /* set by pare_train_options_goal() */
    const char *loss_option;     /* an option of the default loss that is given; NULL: none */
    struct pare_arena *arena;
};

/* Choose the default learning rate for a model, unless a rate is given.  It is lower where
 * fake-quantized values are trained, and for a model with attention, which diverges otherwise. */
void pare_train_options_rate(struct pare_train_options *s, const struct pare_model *m,
                             bool quantized);

/* All option groups, none of them selected: for help and completion. */
int pare_train_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                             struct pare_err *err);

/* The same for a command that only reads data: the options of data sets. */
int pare_data_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                            struct pare_err *err);

/* For recipes, whose steps share them: loss, task, metric, and the options of data sets. */
extern const struct pare_opt pare_goal_options[];
int pare_recipe_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                              struct pare_err *err);

/* Everything is in the arena.  teacher: the caller has a model to distill from. */
int pare_train_options_make(const struct pare_given *g, int n, bool teacher, struct pare_arena *a,
                            struct pare_train_options **s, struct pare_err *err);

/* The same for evaluation: loss and data only, with the options "loss" and "threads". */
int pare_eval_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                            struct pare_err *err);
int pare_train_options_eval(const struct pare_given *g, int n, struct pare_arena *a,
                            struct pare_train_options **s, struct pare_err *err);

/* Open the training and validation sets, and check them against the model.  `valid`: a data set, or
 * "none"; NULL: the held-out part, else the set's test part, else none.  Free both in any case. */
int pare_train_options_data(struct pare_train_options *s, const struct pare_model *m,
                            const char *spec, const char *valid, struct pare_data *data[2],
                            struct pare_err *err);

/* Do the model's inputs and first output fit the data set? */
int pare_model_fits(const struct pare_model *m, const struct pare_data *data,
                    const struct pare_goal_opts *o, struct pare_err *err);

/* The same without labels: those that do not fit are dropped, see pare_data_drop_labels(). */
int pare_model_fits_items(const struct pare_model *m, struct pare_data *data,
                          const struct pare_goal_opts *o, struct pare_err *err);

/* Check the set against the model, find the task, and set the loss and the metrics. */
int pare_train_options_goal(struct pare_train_options *s, const struct pare_model *m,
                            const struct pare_data *data, struct pare_err *err);

#endif
