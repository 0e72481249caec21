/* recipe.h - a recipe: a model, data, and a list of steps, each a call of a command.
 *
 *     {"model": "net.onnx", "data": "digits", "output": "small.onnx",
 *      "steps": [{"step": "prune", "pruner": "l1", "sparsity": 0.5},
 *                {"step": "speedup"},
 *                {"step": "distil", "epochs": 5},
 *                {"step": "quantize", "preset": "int8"}]}
 *
 * The keys of a step are the options of its command, parsed by the same tables.  Each step reads
 * the model that the previous step wrote.
 */
#ifndef PARE_CLI_RECIPE_RECIPE_H
#define PARE_CLI_RECIPE_RECIPE_H

#include "../cli.h"
#include "../../base/json.h"
#include "../../pipeline/compress_presets.h"

struct pare_recipe_step {
    const char *name; /* "distil" */
    const char *word; /* argument before the model, or NULL */
    const struct pare_command *cmd;
    int line;                 /* in the recipe's text */
    struct pare_given *given; /* keys and values */
    int n_given;
    bool keep_zeros; /* the model has masked weights, which must stay 0 */

    /* The last step of a repeat that keeps the best round: rounds, and steps of each.  0: it is
     * not. */
    int rounds, round_steps;
};

/* A list of steps that grows. */
struct pare_recipe_steps {
    struct pare_recipe_step *step;
    int n, cap;
};

struct pare_recipe {
    const char *path; /* for messages */
    const char *text; /* the recipe, as JSON on one line */
    const char *model, *data, *valid, *output, *run;
    int64_t seed, threads;               /* threads 0: all cores */
    double seconds;                      /* for measuring each model; 0: do not measure */
    double max_drop;                     /* of accuracy, in points; below 0: no limit */
    bool keep_steps, keep_training_mode; /* see --keep-training-mode */
    struct pare_dist *dist;              /* MPI processes that run it; NULL: only this one */
    struct pare_given *option;           /* options of the data set, for every step that uses it */
    int n_options;
    bool no_labels;         /* models are compared with the first one instead of labels */
    struct pare_strs shape; /* "name=1,3,32,32" of inputs with free dimensions: the first item's */
    struct pare_recipe_step *step;
    int n_steps;
};

extern const struct pare_opt pare_recipe_keys[]; /* of struct pare_recipe */

/* Names of steps and their commands; ends with NULL. */
struct pare_step_kind {
    const char *name, *command;
    const char *word; /* the command's first argument, before the model; or NULL */
};
extern const struct pare_step_kind pare_step_kinds[];

/* Parse and check a recipe.  Errors name the file, the line and the step. */
int pare_recipe_parse(struct pare_arena *a, const char *path, const char *text, size_t len,
                      struct pare_recipe *r, struct pare_err *err);

/* Parse one step, add it; at most 99 steps are allowed. */
int pare_recipe_step_parse(struct pare_arena *a, const struct pare_json *j,
                           struct pare_recipe_step *s, struct pare_err *err);
int pare_recipe_step_add(struct pare_arena *a, struct pare_recipe_steps *list,
                         const struct pare_recipe_step *s, struct pare_err *err);

/* Add all rounds of {"repeat": N, "sparsity": s, "steps": [...]} (recipe_repeat.c). */
int pare_recipe_repeat(struct pare_arena *a, const struct pare_json *j, const struct pare_recipe *r,
                       struct pare_recipe_steps *list, struct pare_err *err);

/* The record of the model that the step after step i reads, of which `run` has the results: that of
 * step i, or of the best round.  NULL: the same as step i. */
struct json_t;
struct json_t *pare_recipe_next(const struct pare_recipe *r, int i, struct json_t *run);

#define PARE_RECIPE_DATA_KEYS 32 /* more than there are options of data sets */

/* An option of data sets, or the task, metric or loss, by name, where - and _ are equivalent;
 * NULL: there is none. */
const struct pare_opt *pare_recipe_data_key(const char *name);

/* " (did you mean 'x'?)" for an unknown key of a recipe, or ""; the text is in buf. */
const char *pare_recipe_key_hint(const char *typed, char *buf, size_t size);

/* Do the data set's labels fit the model?  If not, models are compared with the first one
 * (r->no_labels), which is said on stderr unless quiet. */
int pare_recipe_check_labels(struct pare_cli *c, struct pare_recipe *r, const struct pare_model *m,
                             bool quiet, struct pare_err *err);

/* Set an option of the data set; the last one counts. */
int pare_recipe_option(struct pare_arena *a, struct pare_recipe *r, const char *name,
                       const char *text, struct pare_err *err);

/* The recipe of a preset as JSON; NULL: no memory. */
const char *pare_recipe_preset(struct pare_arena *a, const char *preset, const char *model,
                               const char *data);

/* Make the call of step i's command; its memory is in the arena. */
struct pare_step_files {
    const char *model, *output, *checkpoint;
    bool resume, quiet;
};
int pare_recipe_call(const struct pare_recipe *r, int i, const struct pare_step_files *f,
                     struct pare_arena *a, struct pare_call *k, struct pare_err *err);

/* The same, parsed into c, for checks and estimates: other processes are not told. */
int pare_recipe_bind(const struct pare_recipe *r, int i, const struct pare_step_files *f,
                     struct pare_cli *c, struct pare_err *err);

/* Does the step write a model? */
bool pare_step_writes(const struct pare_recipe_step *s);

#endif
