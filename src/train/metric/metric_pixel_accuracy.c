/* metric_pixel_accuracy.c - fraction of positions of a segmentation with the right class. */
#include "metric.h"

#include "../../tensor/tensor.h"

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    int64_t n = y->dim[0], positions = n ? pare_numel(y) / n : 0;

    for (int64_t i = 0; i < n; i++) {
        const float *score = pare_f32(out) + i * positions * (f->classes > 1 ? f->classes : 1);

        for (int64_t p = 0; p < positions; p++) {
            int64_t label = pare_metric_label(f, y, i * positions + p);

            sum[0] += label >= 0 && pare_metric_class(f, score, p, positions) == label;
            sum[1] += label >= 0;
        }
    }
}

const struct pare_metric pare_metric_pixel_accuracy = {
    .name = "pixel-accuracy",
    .doc = "Positions whose class is right, without those whose label is to be ignored.",
    .tasks = PARE_TASK_PIXELS,
    .percent = true,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
