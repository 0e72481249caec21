/* metric.h - metrics of an evaluation: accuracy, F1, mean IoU, errors, and the tasks they are for.
 *
 * A metric is src/train/metric/metric_<name>.c with a descriptor at the bottom and one line in
 * metrics.def.  It adds up numbers batch by batch, so that several processes can add theirs.
 */
#ifndef PARE_TRAIN_METRIC_METRIC_H
#define PARE_TRAIN_METRIC_METRIC_H

#include <pare/plugin.h>

/* What a model is for, which selects its metrics and its loss. */
enum pare_task_bit {
    PARE_TASK_CLASS = 1,      /* one class per item */
    PARE_TASK_LABELS = 2,     /* independent labels, each 0 or 1 */
    PARE_TASK_REGRESSION = 4, /* numbers */
    PARE_TASK_PIXELS = 8,     /* one class per position: segmentation */
    PARE_TASK_EMBEDDING = 16, /* vectors of which the direction counts */
    PARE_TASK_OUTPUT = 32,    /* no labels: outputs are compared with another model's */
};

/* Sizes and thresholds that metrics need. */
struct pare_metric_form {
    int64_t classes;  /* of the output; 1: a single output distinguishes two classes */
    int64_t each;     /* elements of an item's labels */
    double threshold; /* an output above it means 1 */
};

struct pare_metric {
    const char *name, *doc;
    unsigned tasks; /* enum pare_task_bit: where it makes sense */
    bool percent;   /* a fraction in [0, 1], printed in percent */
    bool lower;     /* lower values are better */

    /* Does it make sense for these sizes?  NULL: always. */
    bool (*fits)(const struct pare_metric_form *f);

    /* Number of sums. */
    int64_t (*sums)(const struct pare_metric_form *f);

    /* Add a batch: `out` is float32 (N, ...); y has the labels of the same items, int64, or float32
     * with the elements of `out`.  NULL: the metric is the loss. */
    void (*add)(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum);
    double (*value)(const struct pare_metric_form *f, const double *sum); /* NAN: undefined */
    bool by_class; /* the sums are, for each class, positions that are right, then all of them */
};

/* All metrics; the last is NULL. */
extern const struct pare_metric *const pare_metric_list[];

/* For metrics that divide two sums. */
int64_t pare_metric_two_sums(const struct pare_metric_form *f);
double pare_metric_mean(const struct pare_metric_form *f, const double *sum); /* sum[0] / sum[1] */

/* Element i of the labels: its class, or 0 or 1; -1: ignored by the metrics. */
int64_t pare_metric_label(const struct pare_metric_form *f, const struct pare_tensor *y, int64_t i);

/* Number of classes with a higher score than `label` in row `item`, lower indices first.  A score
 * that is not a number is higher than all, and as the label's it is lower than all. */
int64_t pare_metric_rank(const struct pare_tensor *out, int64_t item, int64_t label);

/* Is a label that is independent of others 1?  -1: the score is not a number. */
int pare_metric_said(const struct pare_metric_form *f, float score);

/* Class of position `at` of an item with (classes, positions) scores; -1: one of them is not a
 * number. */
int64_t pare_metric_class(const struct pare_metric_form *f, const float *score, int64_t at,
                          int64_t positions);

#endif
