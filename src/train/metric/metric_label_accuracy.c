/* metric_label_accuracy.c - fraction of independent labels that are right. */
#include "metric.h"

#include "../../tensor/tensor.h"

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    int64_t n = pare_numel(y);

    for (int64_t i = 0; i < n; i++)
        sum[0] += pare_metric_said(f, pare_f32(out)[i]) == (pare_metric_label(f, y, i) > 0);
    sum[1] += (double)n;
}

const struct pare_metric pare_metric_label_accuracy = {
    .name = "label-accuracy",
    .doc = "Labels, of all labels of all items, that are right.",
    .tasks = PARE_TASK_LABELS,
    .percent = true,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
