/* metric_top1.c - top-1 accuracy: the class with the highest score is the right one. */
#include "metric.h"

#include "../../tensor/tensor.h"

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    for (int64_t i = 0; i < y->dim[0]; i++) {
        int64_t label = pare_metric_label(f, y, i);

        sum[0] += label >= 0 && pare_metric_rank(out, i, label) == 0;
        sum[1]++;
    }
}

const struct pare_metric pare_metric_top1 = {
    .name = "top-1",
    .doc = "Items whose class has the highest score.",
    .tasks = PARE_TASK_CLASS,
    .percent = true,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
