/* metric_top5.c - top-5 accuracy: the right class is among the five with the highest scores. */
#include "metric.h"

#include "../../tensor/tensor.h"

static bool fits(const struct pare_metric_form *f)
{
    return f->classes > 5; /* of five classes, all are among the first five */
}

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    for (int64_t i = 0; i < y->dim[0]; i++) {
        int64_t label = pare_metric_label(f, y, i);

        sum[0] += label >= 0 && pare_metric_rank(out, i, label) < 5;
        sum[1]++;
    }
}

const struct pare_metric pare_metric_top5 = {
    .name = "top-5",
    .doc = "Items whose class is among the five with the highest scores; for more than 5 classes.",
    .tasks = PARE_TASK_CLASS,
    .percent = true,
    .fits = fits,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
