/* metric_loss.c - the loss itself as a metric, if --metric asks for it. */
#include "metric.h"

const struct pare_metric pare_metric_loss = {
    .name = "loss",
    .doc = "The loss; only if chosen, since it is printed anyway.",
    .tasks = PARE_TASK_CLASS | PARE_TASK_LABELS | PARE_TASK_REGRESSION | PARE_TASK_PIXELS |
             PARE_TASK_EMBEDDING,
    .lower = true,
};
