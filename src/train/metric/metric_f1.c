/* metric_f1.c - F1 score of independent labels: micro average over all labels of all items. */
#include "metric.h"

#include <math.h>

#include "../../tensor/tensor.h"

enum { HIT, EXTRA, MISSED, N_SUMS };

static int64_t sums(const struct pare_metric_form *f)
{
    (void)f;
    return N_SUMS;
}

static void add(const struct pare_metric_form *f, const struct pare_tensor *out,
                const struct pare_tensor *y, double *sum)
{
    int64_t n = pare_numel(y);

    for (int64_t i = 0; i < n; i++) {
        bool said = (double)pare_f32(out)[i] > f->threshold, is = pare_metric_label(f, y, i) > 0;

        sum[HIT] += said && is;
        sum[EXTRA] += said && !is;
        sum[MISSED] += !said && is;
    }
}

/* 2 precision recall / (precision + recall). */
static double value(const struct pare_metric_form *f, const double *sum)
{
    double all = 2 * sum[HIT] + sum[EXTRA] + sum[MISSED];

    (void)f;
    return all > 0 ? 2 * sum[HIT] / all : NAN;
}

const struct pare_metric pare_metric_f1 = {
    .name = "f1",
    .doc = "F1 score over all labels of all items: 2 hits / (2 hits + wrong + missed).",
    .tasks = PARE_TASK_LABELS,
    .percent = true,
    .sums = sums,
    .add = add,
    .value = value,
};
