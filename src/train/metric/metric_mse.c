/* metric_mse.c - mean squared error. */
#include "metric.h"

#include "../../tensor/tensor.h"

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    int64_t n = pare_numel(y);

    (void)f;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)pare_f32(out)[i] - (double)pare_f32(y)[i];

        sum[0] += d * d;
    }
    sum[1] += (double)n;
}

const struct pare_metric pare_metric_mse = {
    .name = "mse",
    .doc = "Mean squared error.",
    .tasks = PARE_TASK_REGRESSION | PARE_TASK_EMBEDDING,
    .lower = true,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
