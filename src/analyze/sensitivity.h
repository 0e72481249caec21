/* sensitivity.h - accuracy of the model when one layer at a time is pruned.
 *
 * One layer at a time is pruned to each of several sparsities, with all other layers unchanged, and
 * the model is evaluated.  The analysis works on a copy of the model.  For a layer that has zero
 * units already, `sparsity` applies to the others: already + (1 - already) * sparsity is removed.
 *
 * Work items are numbered 0 .. n_layers * n_sparsities - 1, layer by layer, and are independent, so
 * several processes can share them; the results are in `metric`.
 */
#ifndef PARE_ANALYZE_SENSITIVITY_H
#define PARE_ANALYZE_SENSITIVITY_H

#include <pare/compress.h>
#include <pare/plugin.h>

/* Evaluates a model: *metric is its accuracy, or another measure. */
typedef int pare_metric_fn(void *user, const struct pare_model *m, double *metric,
                           struct pare_err *err);

struct pare_sensitivity;

struct pare_sensitivity_setup {
    const char *pruner;   /* a pruner that needs no data */
    const char *settings; /* options of the pruner; NULL: its defaults */
    const struct pare_registry *registry;
    struct pare_floats sparsity; /* ascending; n 0: 0.1 to 0.9 */
    struct pare_strs layers; /* layer names, or "re:" and a pattern; n 0: all that the pruner can
                              * prune */
    const char *early_stop;  /* "none", "minimize", "maximize", "dropped", "raised" */
    double early_stop_value;
    int threads;
    uint64_t seed;
    struct pare_dist *dist; /* processes that share the layers, each with its own measure(); NULL:
                             * this one only */
    pare_metric_fn *measure;
    void (*say)(void *user, const struct pare_sensitivity *s,
                int item); /* called after each item; NULL: none */
    void *user;
};

struct pare_sensitivity {
    struct pare_sensitivity_setup o;
    struct pare_arena *arena;
    struct pare_model *copy;
    double base; /* metric of the unpruned model */
    int n_layers, n_sparsities;
    const char **name, **type; /* per layer */
    double *already;           /* per layer: the fraction of its units that are zero already */
    double *sparsity;
    double *metric; /* (n_layers, n_sparsities); NaN: not measured */
};

/* Lists the layers, copies the model and evaluates it. */
int pare_sensitivity_new(const struct pare_model *m, const struct pare_sensitivity_setup *o,
                         struct pare_sensitivity **s, struct pare_err *err);
void pare_sensitivity_free(struct pare_sensitivity *s); /* NULL is allowed */

/* Measures one item. */
int pare_sensitivity_item(struct pare_sensitivity *s, int item, struct pare_err *err);

/* Does this metric end the layer's sparsities?  minimize: it is below the value; maximize: above;
 * dropped, raised: more than the value below or above the base. */
bool pare_sensitivity_stops(const struct pare_sensitivity *s, double metric);

/* Measures one layer at its sparsities up to the one that stops; all layers. */
int pare_sensitivity_layer(struct pare_sensitivity *s, int layer, struct pare_err *err);
int pare_sensitivity_run(struct pare_sensitivity *s, struct pare_err *err);

#endif
