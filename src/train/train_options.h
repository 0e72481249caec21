/* train_options.h - from settings as people write them to everything that training is started with. */
#ifndef PARE_TRAIN_TRAIN_OPTIONS_H
#define PARE_TRAIN_TRAIN_OPTIONS_H

#include "../base/option_groups.h"
#include "train.h"

/* The options of training itself; its parts have their own. */
struct pare_train_options_conf {
    int64_t epochs;
    double lr; /* 0: 0.01 for sgd, else 0.001 */
    const char *optimizer, *schedule, *loss, *teacher;
    int64_t warmup;
    double warmup_factor, clip_norm, clip_value;
    struct pare_strs freeze, distill_layers;
    int64_t patience;
    bool keep_best;
    const char *checkpoint;
    int64_t checkpoint_steps;
    bool resume, sync_bn;
    int64_t seed, threads;
    bool tune;
    const char *choices;
};

struct pare_train_options {
    struct pare_train_options_conf c;
    struct pare_trainer_opts trainer; /* without the teacher's model: c.teacher is its file; and
                                         without other processes */
    struct pare_train_conf train;
    struct pare_data_opts data;
};

/* Every part that there is, none of them chosen: for help, and to know names. */
int pare_train_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                             struct pare_err *err);

/* All is in the arena.  teacher: the caller has a model to distill from. */
int pare_train_options_make(const struct pare_given *g, int n, bool teacher, struct pare_arena *a,
                            struct pare_train_options **s, struct pare_err *err);

/* The same for judging a model: only loss and data, with the options "loss" and "threads". */
int pare_eval_option_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                            struct pare_err *err);
int pare_train_options_eval(const struct pare_given *g, int n, struct pare_arena *a,
                            struct pare_train_options **s, struct pare_err *err);

/* "lr=0.1 epochs=3 flip": words into settings; a word without = means true. */
int pare_given_split(const char *text, struct pare_arena *a, struct pare_given **g, int *n,
                     struct pare_err *err);

/* Words, then pairs: of two with the same name, the last one counts.  words may be NULL. */
int pare_given_join(const struct pare_given *pair, int n_pairs, const char *words,
                    struct pare_arena *a, struct pare_given **g, int *n, struct pare_err *err);

/* The set to train with and the one to validate with, checked against the model.  `valid` is a set
 * of its own, or "none"; NULL: what was held out, else the set's own test part, else nothing.  Free
 * both in any case. */
int pare_train_options_data(const struct pare_train_options *s, const struct pare_model *m,
                            const char *spec, const char *valid, struct pare_data *data[2],
                            struct pare_err *err);

/* Do the model's first input and output fit the set? */
int pare_model_fits(const struct pare_model *m, const struct pare_data *data, struct pare_err *err);

#endif
