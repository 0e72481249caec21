/* repair.h - least-squares repair: layers after removed channels, and layers that lost single
 * weights, are fitted to what is left. */
#ifndef PARE_COMPRESS_REPAIR_H
#define PARE_COMPRESS_REPAIR_H

#include "compression.h"
#include "grams.h"

struct pare_repair {
    struct pare_model *dense; /* the model before channels were removed; weights are loaded */
    struct pare_data *data;
    int64_t items, passes; /* 0: 1024 items; 24 passes over them */
    double damping;        /* relative to the mean power of a layer's inputs; 0: 1e-4 */
    bool ample;            /* only layers with ten positions per input or more */
    double flops;          /* multiplications per Gram, as of struct pare_gram_source; 0: 2e10 */
    struct pare_dist *dist;
    int threads; /* 0: all cores */
    pare_progress_fn *progress;
    void *user;

    int layers;    /* out: layers that were fitted */
    int skipped;   /* out: layers whose inputs changed and that could not be */
    int corrected; /* out: layers of pare_correct_statistics() */
};

/* Fit the convolutions and linear layers of a model whose removed channels are 0 (or constant), in
 * order, each with the inputs of the model as repaired so far, so that their outputs are as those
 * of the dense model.  Weights change in place: rows that are 0 stay 0, columns of inputs that are
 * constant become 0.  Where single weights of a row are 0, they stay 0 and the others are fitted.
 * Biases, or the means of a following BatchNormalization, take the difference of the means.  c: the
 * compression that wraps the layers, whose copies change, too; or NULL. */
int pare_repair(struct pare_model *m, struct pare_repair *r, struct pare_compression *c,
                struct pare_err *err);

/* The same for the layers of a compression, right after masks were made: its float weights are the
 * dense model.  Data, processes and threads are the compression's; items: 0 as above. */
int pare_repair_masked(struct pare_compression *c, int64_t items, struct pare_err *err);

/* Make mean and variance of the outputs of layers those of the dense model, by their weights and
 * biases: for layers with a bias and without a batch normalization, whose statistics
 * pare_recalibrate() re-estimates.  Channels that are 0 stay 0.  On r->items, at most 256. */
int pare_correct_statistics(struct pare_model *m, struct pare_repair *r, struct pare_err *err);

/* The float weights that the compression keeps are those of the model now.  NULL: none. */
void pare_repair_update_copies(struct pare_compression *c);

/* Whether v is a constant of n floats that one node reads. */
bool pare_value_is_own(const struct pare_graph *g, const struct pare_value *v, int64_t n);

#endif
