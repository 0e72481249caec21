/* fisher.h - Fisher information of layer outputs: the mean square of the loss's gradient, by
 * channel.
 *
 *     F_o = E[(dL / dy_o)^2]    over items and positions, L the loss of an item
 *
 * A change of the weights of a row by w costs about F_o w G w' / 2 with the Gram of grams.h.  L is
 * the loss with the labels; without labels, with a label that is drawn from the class
 * probabilities of the model itself (or of a normal distribution around other outputs), so that F
 * is the Fisher information of the model's own predictions.
 */
#ifndef PARE_COMPRESS_FISHER_H
#define PARE_COMPRESS_FISHER_H

#include "../data/data.h"
#include "../dist/dist.h"
#include "../graph/layer.h"
#include "../onnx/model.h"

struct pare_fisher {
    const struct pare_layer_info *layer; /* set by the caller */
    int64_t n;                           /* output channels */
    double count, items;                 /* positions; items that they are of */
    double *f;                           /* (n); memory is from the arena */
};

struct pare_fisher_source {
    struct pare_model *model; /* must be trainable; its weights and statistics do not change */
    struct pare_data *data;
    int64_t items; /* at most, in all processes, which have whole batches */
    bool own;      /* ignore labels */
    bool outputs;  /* ignore labels and class probabilities: L is a random sum of the outputs with
                    * weights of variance 1, and F_o the mean square that a change of y_o causes in
                    * all outputs */
    struct pare_dist *dist;
    int threads; /* 0: all cores */
};

/* One forward and one backward pass per batch. */
int pare_fisher_collect(const struct pare_fisher_source *s, struct pare_arena *a,
                        struct pare_fisher *f, int n, struct pare_err *err);

/* What the mean square of an error of output channel o costs an item: half of the Fisher
 * information of all its positions. */
double pare_fisher_cost(const struct pare_fisher *f, int64_t o);

#endif
