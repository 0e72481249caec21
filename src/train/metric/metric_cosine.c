/* metric_cosine.c - cosine of the angle between outputs and target vectors (embeddings). */
#include "metric.h"

#include <math.h>

#include "../../tensor/tensor.h"

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    (void)f;
    for (int64_t i = 0; i < y->dim[0]; i++) {
        int64_t each = pare_numel(y) / y->dim[0];
        double xx = 0, yy = 0, xy = 0;

        for (int64_t k = i * each; k < (i + 1) * each; k++) {
            double a = (double)pare_f32(out)[k], b = (double)pare_f32(y)[k];

            xx += a * a;
            yy += b * b;
            xy += a * b;
        }
        sum[0] += xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : xx == yy;
        sum[1]++;
    }
}

const struct pare_metric pare_metric_cosine = {
    .name = "cosine",
    .doc = "Cosine of output and target, the mean over items.",
    .tasks = PARE_TASK_EMBEDDING,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
