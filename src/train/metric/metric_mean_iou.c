/* metric_mean_iou.c - mean intersection over union of a segmentation, over the classes that occur.
 */
#include "metric.h"

#include <math.h>

#include "../../tensor/tensor.h"

static int64_t classes(const struct pare_metric_form *f)
{
    return f->classes > 1 ? f->classes : 2;
}

/* For each class: positions that are both, and positions that are either. */
static int64_t sums(const struct pare_metric_form *f)
{
    return 2 * classes(f);
}

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    int64_t n = y->dim[0], positions = n ? pare_numel(y) / n : 0, C = classes(f);

    for (int64_t i = 0; i < n; i++) {
        const float *score = pare_f32(out) + i * positions * (f->classes > 1 ? f->classes : 1);

        for (int64_t p = 0; p < positions; p++) {
            int64_t label = pare_metric_label(f, y, i * positions + p), said;

            if (label < 0)
                continue;
            said = pare_metric_class(f, score, p, positions);
            sum[label] += said == label;
            sum[C + label]++;
            if (said >= 0)
                sum[C + said] += said != label;
        }
    }
}

static double value(const struct pare_metric_form *f, const double *sum)
{
    int64_t C = classes(f), n = 0;
    double all = 0;

    for (int64_t c = 0; c < C; c++)
        if (sum[C + c] > 0) {
            all += sum[c] / sum[C + c];
            n++;
        }
    return n ? all / (double)n : NAN;
}

const struct pare_metric pare_metric_mean_iou = {
    .name = "mean-iou",
    .doc = "Intersection over union of each class, the mean over classes that occur.",
    .tasks = PARE_TASK_PIXELS,
    .percent = true,
    .sums = sums,
    .add = add,
    .value = value,
    .by_class = true,
};
