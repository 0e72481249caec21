/* cost_table.h - latency, size and MACs of a model as functions of channel counts and formats.
 *
 * Groups are the dependency groups of the model (graph/removal_units.h): channels that are removed
 * together.  Layers are its convolutions and linear layers, each with a format.  An assignment is a
 * count for each group and a format for each layer.  The time of an assignment is
 *
 *     fixed + alpha * (sum of pare_cost_time() over layers + sum of conversions between formats)
 *
 * Times of layers come from profiles of whole models: the model is built with fewer channels for
 * designed assignments, and the time of every step is attributed to the layer that it computes or,
 * for steps without weights, to the layer whose output it processes.  Layers with the same key
 * share samples.  The table lives in the caller's arena.
 */
#ifndef PARE_SEARCH_COST_TABLE_H
#define PARE_SEARCH_COST_TABLE_H

#include "../onnx/model.h"

enum pare_cost_format { PARE_COST_F32, PARE_COST_INT8, PARE_COST_FORMATS };

/* "float32", "int8" */
extern const char *const pare_cost_format_names[PARE_COST_FORMATS];

#define PARE_COST_CHOICES 9 /* most counts of a group */

struct pare_plan;

struct pare_cost_opts {
    int64_t batch;           /* 0: 1 */
    int threads;             /* 0: all cores */
    double seconds;          /* limit of the whole measurement; 0: 60 */
    unsigned formats;        /* bits 1 << enum pare_cost_format; 0: float32 and int8 */
    bool untuned;            /* plans choose kernels by rules, without timing them */
    uint64_t seed;           /* of the assignments */
    int models;              /* most models to build; 0: chosen */
    const char *cache;       /* folder of tables and kernel choices; NULL: none */
    const char *read_table;  /* file of times to use instead of measuring; NULL: measure */
    const char *write_table; /* file to write the times to, which are measured anew; NULL: none */
    pare_progress_fn *progress;
    void *user;

    /* For tests: microseconds of each step of a plan and of the whole plan, instead of a run.
     * NULL: run it. */
    int (*timer)(void *user, struct pare_plan *p, double *step_us, double *total_us);
    void *timer_user;
};

/* A dependency group with its possible counts. */
struct pare_cost_group {
    const char *name; /* of the first layer that computes it */
    int64_t full;     /* units in the model */
    int n_choices;
    int64_t choice[PARE_COST_CHOICES]; /* ascending; the last one is `full`.  0: without these
                                        * channels, the branch that they are in is removed */
    int n_layers;
    int *layer; /* layers that compute its channels */
};

/* The channels of one side of a layer: fixed + sum of times[i] * count of group[i]. */
struct pare_cost_axis {
    int64_t fixed;
    int n;
    int *group;
    int64_t *times;
};

struct pare_cost_layer {
    const char *name;      /* as in a config_list */
    const char *key;       /* layers with the same key have the same times */
    const char *light_key; /* of the steps without weights after it */
    struct pare_cost_axis in, out;
    int in_group, out_group; /* the group of `in`, `out`; -1: fixed, or several groups */
    int64_t cin, cout;       /* in the model as it is */
    int64_t groups;          /* of a convolution, in the model as it is */
    bool depthwise;          /* in and out are the same channels */
    double taps;             /* weights per pair of channels */
    double macs;             /* of the model as it is, for the batch */
    double positions;        /* elements of the output per channel */
    unsigned formats;        /* bits 1 << format */
    int n_next, n_prev;
    int *prev; /* the converse of next */
    int *next; /* layers that read its output, perhaps through nodes without weights, or whose
                * output is joined with it, as in a residual block */
};

struct pare_cost_samples;

struct pare_cost_table {
    struct pare_arena *arena;
    int n_groups, n_layers;
    struct pare_cost_group *group;
    struct pare_cost_layer *layer;
    unsigned formats;
    int64_t batch;
    int threads;
    struct pare_cost_samples *samples;       /* times by key, counts and format */
    double fixed, alpha;                     /* microseconds; 1 */
    double border_us[PARE_COST_FORMATS];     /* microseconds of a conversion after a layer of this
                                          * format whose consumer has another one: constant, */
    double border[PARE_COST_FORMATS];        /* and per element */
    double bytes_fixed;                      /* of the file */
    double bytes_layer[PARE_COST_FORMATS];   /* per layer of this format */
    double bytes_channel[PARE_COST_FORMATS]; /* per output channel of a layer */
    double bytes_norm, bytes_norm_channel;   /* of normalizations, if all layers are float32: in the
                                              * file, per output channel of a layer */
    double bytes_border[PARE_COST_FORMATS];  /* of a conversion after a layer of this format */
    double scale[PARE_COST_FORMATS];  /* of all times of this format, fitted to models that were
                                       * built; 0: 1 */
    double error_median, error_worst; /* relative, over the measured models; -1: not measured */
    int models, rounds;               /* that were measured; 0: read */
};

/* Measure, or read, the table of a model.  The model does not change. */
int pare_cost_table_measure(const struct pare_model *m, const struct pare_cost_opts *opts,
                            struct pare_arena *a, struct pare_cost_table **t, struct pare_err *err);

/* Channels of one side of a layer for these counts of all groups. */
int64_t pare_cost_axis_count(const struct pare_cost_axis *x, const int64_t *count);

/* Microseconds of a layer and of the steps without weights after it. */
double pare_cost_time(const struct pare_cost_table *t, int layer, int64_t cin, int64_t cout,
                      enum pare_cost_format f);

/* Microseconds of the steps without weights alone. */
double pare_cost_light(const struct pare_cost_table *t, int layer, int64_t cout,
                       enum pare_cost_format f);

/* Microseconds of a conversion after the layer, if a consumer has another format.  What
 * pare_cost_predict() adds depends on the formats of both sides of a layer; this is for solvers
 * that look at pairs. */
double pare_cost_border(const struct pare_cost_table *t, int layer, int64_t cout,
                        enum pare_cost_format own, enum pare_cost_format next);

/* Bytes in the file and multiply-accumulates of a layer. */
double pare_cost_bytes(const struct pare_cost_table *t, int layer, int64_t cin, int64_t cout,
                       enum pare_cost_format f);
double pare_cost_macs(const struct pare_cost_table *t, int layer, int64_t cin, int64_t cout);

/* Of a whole assignment: count by group, format by layer (NULL: all float32). */
struct pare_cost {
    double us, bytes, macs;
};
struct pare_cost pare_cost_predict(const struct pare_cost_table *t, const int64_t *count,
                                   const enum pare_cost_format *format);

/* Scale the prediction after the real model was measured. */
void pare_cost_refit(struct pare_cost_table *t, double predicted_us, double measured_us);

/* The same by format: the times of int8 if the assignment has such layers, else those of
 * float32. */
void pare_cost_refit_format(struct pare_cost_table *t, const int64_t *count,
                            const enum pare_cost_format *format, double measured_us);

/* ---- models of assignments (narrow_model.c) -------------------------------------------------- */

/* The model with the first count[g] units of each group and these formats (NULL: float32), with
 * scales from random inputs: for timing only. */
int pare_cost_build(const struct pare_model *m, const struct pare_cost_table *t,
                    const int64_t *count, const enum pare_cost_format *format,
                    struct pare_model **out, struct pare_err *err);

/* The config_list of these formats, for the quantizer of preset int8: g is the graph with shapes of
 * the model, whose normalizations are folded. */
struct pare_rules;
int pare_cost_rules(const struct pare_cost_table *t, const enum pare_cost_format *format,
                    struct pare_graph *g, struct pare_arena *a, struct pare_rules *rules,
                    struct pare_err *err);

/* ---- internals ------------------------------------------------------------------------------- */

/* cost_space.c: fill group and layer. */
int pare_cost_space(const struct pare_model *m, struct pare_cost_table *t, struct pare_err *err);

/* cost_branches.c: give groups whose removal removes a residual branch the count 0. */
int pare_cost_find_branches(struct pare_cost_table *t, struct pare_arena *a, struct pare_err *err);

/* The same: without these counts, unless a model without any of the branches can be built. */
int pare_cost_check_branches(const struct pare_model *m, struct pare_cost_table *t,
                             struct pare_err *err);

/* The same: zero all constants of the branches without channels, so that their sum with the
 * shortcut is the shortcut.  Those that other nodes read stay. */
struct pare_cost_units;
int pare_cost_zero_branches(struct pare_model *m, const struct pare_cost_units *u,
                            const int64_t *count, struct pare_err *err);

/* cost_space.c: the group of each removal unit of the model's analysis graph. */
struct pare_cost_units {
    struct pare_graph *g;
    struct pare_removal_units *units;
    int64_t n;
    int *group;    /* by unit; -1: none */
    int64_t *rank; /* by unit: its number within the group */
};
int pare_cost_find_units(const struct pare_model *m, struct pare_arena *a,
                         struct pare_cost_units *u, struct pare_err *err);

/* narrow_model.c: zero the units whose rank is not below the count of their group.  m: the model
 * of `u`, or a copy. */
int pare_cost_zero(struct pare_model *m, const struct pare_cost_units *u, const int64_t *count,
                   struct pare_err *err);

/* cost_profile.c: times of assignments; the sizes of files alone. */
int pare_cost_profile_sizes(const struct pare_model *m, const struct pare_cost_opts *o,
                            struct pare_cost_table *t, struct pare_err *err);
int pare_cost_profile(const struct pare_model *m, const struct pare_cost_opts *o,
                      struct pare_cost_table *t, struct pare_err *err);

/* cost_size.c: fit the bytes of files. */
struct pare_cost_file {
    const int64_t *count;
    const enum pare_cost_format *format;
    double bytes;
};
int pare_cost_fit_bytes(struct pare_cost_table *t, const struct pare_cost_file *f, int n,
                        struct pare_err *err);

/* cost_whole.c: numbers of the whole model as samples, so that files have them, too; *found: the
 * samples have them.  Then the file of the cache for this model and machine; NULL: none. */
int pare_cost_whole_save(struct pare_cost_table *t, struct pare_err *err);
int pare_cost_whole_load(struct pare_cost_table *t, bool *found, struct pare_err *err);
const char *pare_cost_cache_file(const struct pare_cost_table *t, const char *folder, bool make);

/* cost_table.c: which neighbors of a layer have another format, bit 0: one of `next`, bit 1: one of
 * `prev`; the name under which times of conversions are stored for these bits, with the layer's key
 * and 1 as the number of input channels. */
unsigned pare_cost_at_border(const struct pare_cost_table *t, int layer,
                             const enum pare_cost_format *format);
const char *pare_cost_border_name(enum pare_cost_format own, unsigned bits);

/* cost_table.c: the sum that alpha multiplies. */
double pare_cost_sum(const struct pare_cost_table *t, const int64_t *count,
                     const enum pare_cost_format *format);

#endif
