/* held_out.h - compare the outputs of a compressed model with those of the original on items that
 * nothing was fitted to.
 */
#ifndef PARE_COMPRESS_HELD_OUT_H
#define PARE_COMPRESS_HELD_OUT_H

#include "../data/data.h"
#include "../dist/dist.h"
#include "../onnx/model.h"

/* The order of items is that of pare_grams_collect(), which uses the first ones. */
struct pare_held_out {
    const struct pare_model *dense; /* the original */
    struct pare_data *data;
    int64_t fitted; /* items that a fit may use: the first of the order */
    int64_t items;  /* held-out items, which follow them */
    struct pare_dist *dist;
    int threads; /* 0: all cores */
    pare_progress_fn *progress;
    void *user;
};

/* Divide the items of a set: at most a fifth, and 256, are held out.  A set of fewer than 10 items
 * is used for both. */
void pare_held_out_divide(struct pare_held_out *h, int64_t most);

/* The same for pare_grams_collect(), which takes whole batches: the fit uses none of the next one,
 * and up to 1024 items are held out. */
void pare_held_out_divide_batches(struct pare_held_out *h, int64_t most);

/* How far outputs y' are from those of the original, y. */
struct pare_output_distance {
    /* The mean over the model's outputs of |y - y'|^2 / |y|^2; of integers the share of unequal
     * elements; infinite: y' is not finite where y is. */
    double noise;

    /* Of class scores: the mean of the Kullback-Leibler divergence of the class probabilities from
     * the original's, in nats; NaN: output 0 has no class scores. */
    double divergence;

    /* Of class scores: the mean cross-entropy of y' with the labels, in nats; NaN: no labels. */
    double loss;
};

/* Output 0 has class scores if the set has labels of as many classes as there are columns, or if
 * its rows are probabilities. */
int pare_held_out_compare(const struct pare_held_out *h, const struct pare_model *m,
                          struct pare_output_distance *d, struct pare_err *err);

/* Which is better: by the loss where there are labels, else by the divergence where there are class
 * scores (a change of scale or a common shift is noise, but leaves the classes as they are), else
 * by the noise.  The loss also tells where a model becomes better than the original, whose own
 * statistics may be those of a moving average at the end of a training. */
double pare_output_cost(const struct pare_output_distance *d);

/* The same without the labels: the divergence where there are class scores, else the noise.
 * Quantizations differ by less in their losses than a sample of items tells from chance. */
double pare_output_change(const struct pare_output_distance *d);

/* The signal-to-noise ratio in dB, at most 200. */
double pare_held_out_db(double noise);

/* "so far, name 12.3 dB (loss 0.1)" or (KL 0.1); so_far NULL: the first; NULL: no memory. */
const char *pare_held_out_text(struct pare_arena *a, const char *so_far, const char *name,
                               const struct pare_output_distance *d);

#endif
