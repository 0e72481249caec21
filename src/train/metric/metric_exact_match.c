/* metric_exact_match.c - fraction of items of which all independent labels are right. */
#include "metric.h"

#include "../../tensor/tensor.h"

static bool fits(const struct pare_metric_form *f)
{
    return f->each > 1; /* otherwise it is the label accuracy */
}

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    int64_t each = pare_numel(y) / y->dim[0];

    for (int64_t i = 0; i < y->dim[0]; i++) {
        int64_t right = 0;

        for (int64_t k = i * each; k < (i + 1) * each; k++)
            right += pare_metric_said(f, pare_f32(out)[k]) == (pare_metric_label(f, y, k) > 0);
        sum[0] += right == each;
    }
    sum[1] += (double)y->dim[0];
}

const struct pare_metric pare_metric_exact_match = {
    .name = "exact-match",
    .doc = "Items of which all labels are right.",
    .tasks = PARE_TASK_LABELS,
    .percent = true,
    .fits = fits,
    .sums = pare_metric_two_sums,
    .add = add,
    .value = pare_metric_mean,
};
