/* metric_r2.c - R2, the coefficient of determination of a regression.
 *
 * 1 - sum of squared errors / sum of squared deviations from the mean; of several outputs, both
 * sums are over all of them, and each has its own mean.
 */
#include "metric.h"

#include <math.h>

#include "../../tensor/tensor.h"

#define MOST_OUTPUTS 65536

static bool fits(const struct pare_metric_form *f)
{
    return f->each <= MOST_OUTPUTS; /* images have another meaning of the mean, and need memory */
}

/* Errors, items; then the sums of each output and of its squares. */
static int64_t sums(const struct pare_metric_form *f)
{
    return 2 + 2 * f->each;
}

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    for (int64_t i = 0; i < y->dim[0]; i++)
        for (int64_t k = 0; k < f->each; k++) {
            double t = (double)pare_f32(y)[i * f->each + k];
            double d = (double)pare_f32(out)[i * f->each + k] - t;

            sum[0] += d * d;
            sum[2 + k] += t;
            sum[2 + f->each + k] += t * t;
        }
    sum[1] += (double)y->dim[0];
}

static double value(const struct pare_metric_form *f, const double *sum)
{
    double all = 0;

    for (int64_t k = 0; k < f->each; k++)
        all += sum[2 + f->each + k] - sum[2 + k] * sum[2 + k] / sum[1];
    return sum[1] > 1 && all > 0 ? 1 - sum[0] / all : NAN;
}

const struct pare_metric pare_metric_r2 = {
    .name = "r2",
    .doc = "Coefficient of determination: 1 is perfect, 0 is as good as the mean of the targets.",
    .tasks = PARE_TASK_REGRESSION,
    .fits = fits,
    .sums = sums,
    .add = add,
    .value = value,
};
