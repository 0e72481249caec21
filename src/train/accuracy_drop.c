/* accuracy_drop.c - accuracy that a change of a model loses: warning, limit max_drop. */
#include "accuracy_drop.h"

double pare_accuracy_drop(const struct pare_metrics *before, const struct pare_metrics *after)
{
    if (!before->n || !after->n || before->top1 < 0 || after->top1 < 0)
        return 0;
    return 100 * (before->top1 - after->top1);
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
                     drop, 100 * before->top1, 100 * after->top1, max);
}
