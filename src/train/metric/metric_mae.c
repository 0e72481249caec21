/* metric_mae.c - mean absolute error. */
#include "metric.h"

#include <math.h>

#include "../../tensor/tensor.h"

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    int64_t n = pare_numel(y);

    (void)f;
    for (int64_t i = 0; i < n; i++)
        sum[0] += fabs((double)pare_f32(out)[i] - (double)pare_f32(y)[i]);
    sum[1] += (double)n;
}

const struct pare_metric pare_metric_mae = {
    .name = "mae",
    .doc = "Mean absolute error.",
    .tasks = PARE_TASK_REGRESSION,
    .lower = true,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
