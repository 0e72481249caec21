/* accuracy_drop.c - accuracy that a change of a model loses: warning, limit max_drop. */
#include "accuracy_drop.h"

#include "train.h"

double pare_accuracy_drop(const struct pare_metrics *before, const struct pare_metrics *after)
{
    double was = pare_metrics_share(before), is = pare_metrics_share(after);

    return before->n && after->n && was >= 0 && is >= 0 ? 100 * (was - is) : 0;
}

int pare_accuracy_drop_check(double max, const struct pare_metrics *before,
                             const struct pare_metrics *after, struct pare_err *err)
{
    double drop = pare_accuracy_drop(before, after);

    /* Accuracies are quotients: allow for a rounding error at the bound. */
    if (max < 0 || drop <= max + 1e-9)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "accuracy dropped by %.2f points, from %.2f%% to %.2f%%; max-drop allows %g",
                     drop, 100 * pare_metrics_share(before), 100 * pare_metrics_share(after), max);
}
