/* accuracy_drop.h - accuracy that a change of a model loses: warning, limit max_drop. */
#ifndef PARE_TRAIN_ACCURACY_DROP_H
#define PARE_TRAIN_ACCURACY_DROP_H

#include <pare/train.h>

#define PARE_DROP_WARNING 5 /* percentage points of which commands warn */

/* Percentage points that `after` is below `before`; 0: not evaluated, or no classes. */
double pare_accuracy_drop(const struct pare_metrics *before, const struct pare_metrics *after);

/* An error if the drop is above `max`, in percentage points; below 0: no limit. */
int pare_accuracy_drop_check(double max, const struct pare_metrics *before,
                             const struct pare_metrics *after, struct pare_err *err);

#endif
