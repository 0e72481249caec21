/* metric.c - the registry of metrics, and sums that they share. */
#include "metric.h"

#include <math.h>
#include <stddef.h>

#define METRIC(name) extern const struct pare_metric pare_metric_##name;
#include "metrics.def"
#undef METRIC

const struct pare_metric *const pare_metric_list[] = {
#define METRIC(name) &pare_metric_##name,
#include "metrics.def"
#undef METRIC
    NULL
};

int64_t pare_metric_two_sums(const struct pare_metric_form *f)
{
    (void)f;
    return 2;
}

double pare_metric_mean(const struct pare_metric_form *f, const double *sum)
{
    (void)f;
    return sum[1] > 0 ? sum[0] / sum[1] : NAN;
}

int64_t pare_metric_label(const struct pare_metric_form *f, const struct pare_tensor *y, int64_t i)
{
    int64_t label = y->dtype == PARE_I64 ? pare_i64(y)[i] : pare_f32(y)[i] > 0.5F;

    return label < (f->classes > 1 ? f->classes : 2) ? label : -1;
}

int pare_metric_said(const struct pare_metric_form *f, float score)
{
    return isnan(score) ? -1 : (double)score > f->threshold;
}

int64_t pare_metric_rank(const struct pare_tensor *out, int64_t item, int64_t label)
{
    int64_t n = out->dim[1], before = 0;
    const float *row = pare_f32(out) + item * n;

    for (int64_t k = 0; k < n; k++) /* ties go to the lower index */
        before += !(row[k] <= row[label]) || (row[k] == row[label] && k < label);
    return before;
}

int64_t pare_metric_class(const struct pare_metric_form *f, const float *score, int64_t at,
                          int64_t positions)
{
    int64_t best = 0;

    if (f->classes <= 1)
        return pare_metric_said(f, score[at]);
    for (int64_t c = 0; c < f->classes; c++) {
        if (isnan(score[c * positions + at]))
            return -1;
        best = score[c * positions + at] > score[best * positions + at] ? c : best;
    }
    return best;
}
