/* sensitivity.h - how much accuracy each layer costs when a part of it is removed.
 *
 * One layer at a time is pruned to each of several sparsities, the others stay as they are, and
 * the model is measured.  All of it is done to a copy.  Of a layer that has lost weights before,
 * `sparsity` counts in what is left: already + (1 - already) * sparsity goes.
 *
 * Items of work are numbers 0 .. n_layers * n_sparsities - 1, layer by layer, and do not depend on
 * one another, so that whoever has several machines can share them out: the results are numbers in
 * `metric`.
 */
#ifndef PARE_ANALYZE_SENSITIVITY_H
#define PARE_ANALYZE_SENSITIVITY_H

#include <pare/compress.h>
#include <pare/plugin.h>

/* How good a model is. */
typedef int pare_metric_fn(void *user, const struct pare_model *m, double *metric,
                           struct pare_err *err);

struct pare_sensitivity;

struct pare_sensitivity_opts {
    const char *pruner;   /* one that needs no data */
    const char *settings; /* of it, or NULL */
    const struct pare_registry *registry;
    struct pare_floats sparsity; /* in rising order; n 0: 0.1 to 0.9 */
    struct pare_strs layers; /* names, or "re:" and a pattern; n 0: all that the pruner prunes */
    const char *early_stop;  /* "none", "minimize", "maximize", "dropped", "raised" */
    double early_stop_value;
    int threads;
    uint64_t seed;
    struct pare_dist *dist; /* processes that share the layers; measure() is then each one's own */
    pare_metric_fn *measure;
    void (*say)(void *user, const struct pare_sensitivity *s, int item); /* one is done; or NULL */
    void *user;
};

struct pare_sensitivity {
    struct pare_sensitivity_opts o;
    struct pare_arena *arena;
    struct pare_model *copy;
    double base; /* the metric of the model as it is */
    int n_layers, n_sparsities;
    const char **name, **type; /* by layer */
    double *already;           /* by layer: the part of it that is gone before */
    double *sparsity;
    double *metric; /* (n_layers, n_sparsities); NaN: not measured */
};

/* Find the layers, copy the model, measure it. */
int pare_sensitivity_new(const struct pare_model *m, const struct pare_sensitivity_opts *o,
                         struct pare_sensitivity **s, struct pare_err *err);
void pare_sensitivity_free(struct pare_sensitivity *s); /* NULL is fine */

/* Measure one item. */
int pare_sensitivity_item(struct pare_sensitivity *s, int item, struct pare_err *err);

/* Does this metric end the layer's sparsities?  minimize: it is below the value; maximize: above;
 * dropped, raised: by more than the value below or above the base. */
bool pare_sensitivity_stops(const struct pare_sensitivity *s, double metric);

/* One layer with its sparsities, up to the one that stops; then all layers. */
int pare_sensitivity_layer(struct pare_sensitivity *s, int layer, struct pare_err *err);
int pare_sensitivity_run(struct pare_sensitivity *s, struct pare_err *err);

#endif
