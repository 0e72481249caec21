/* goal.h - the task of a model on a data set: its loss and its metrics, derived or chosen. */
#ifndef PARE_TRAIN_METRIC_GOAL_H
#define PARE_TRAIN_METRIC_GOAL_H

#include <pare/train.h>

#include "../../data/data.h"
#include "../loss.h"
#include "metric.h"

struct pare_model;

struct pare_task {
    const char *name, *doc;
    enum pare_task_bit bit;
    const char *loss; /* the default; NULL: none is needed */
};

/* All tasks; the last has no name. */
extern const struct pare_task pare_tasks[];

/* What the options say. */
struct pare_goal_opts {
    const char *task;             /* NULL: derived from labels, outputs and loss */
    const char *metric;           /* selects the best epoch; NULL: the task's first one */
    const struct pare_loss *loss; /* NULL: the task's */
};

struct pare_task_goal {
    const struct pare_task *task;
    const char *why; /* the task was derived from this; NULL: it was given */
    const struct pare_loss *loss;
    struct pare_metric_form form;
    const struct pare_metric *metric[PARE_METRIC_VALUES]; /* the first one selects the best epoch */
    int n_metrics;
};

/* Find the task and check that labels and outputs fit it.  o may be NULL. */
int pare_goal_find(const struct pare_model *m, const struct pare_data *data,
                   const struct pare_goal_opts *o, struct pare_task_goal *g, struct pare_err *err);

/* Sums of all metrics of a goal.  Memory is from the arena. */
struct pare_goal_sums {
    const struct pare_task_goal *goal;
    double *sum;
    int64_t n; /* number of sums */
};
int pare_goal_sums_new(const struct pare_task_goal *g, struct pare_arena *a,
                       struct pare_goal_sums *s, struct pare_err *err);
void pare_goal_add(struct pare_goal_sums *s, const struct pare_tensor *out,
                   const struct pare_tensor *y);

/* The sums of the metric that has some for each class, and their number; NULL: none has. */
const double *pare_goal_by_class(const struct pare_goal_sums *s, int64_t *n);

/* Fill the metrics' values; `loss` is the mean loss. */
void pare_goal_values(const struct pare_goal_sums *s, double loss, struct pare_metrics *m);

#endif
