/* analyses.h - the analyses of <pare/analyze.h> for commands: several processes, a metric's loss
 * with its options, a line for each result. */
#ifndef PARE_PIPELINE_ANALYSES_H
#define PARE_PIPELINE_ANALYSES_H

#include <pare/analyze.h>

#include "../analyze/sensitivity.h"
#include "../train/train.h"

struct pare_analysis {
    struct pare_dist *dist; /* processes that share the layers; NULL: one */
    const struct pare_loss *loss;
    const void *loss_conf;
    const char *task, *metric;         /* NULL: derived */
    struct pare_metric_value measured; /* receives the metric, with the value of the last run */
    void (*say)(void *user, const struct pare_sensitivity *s, int item); /* NULL: none */
    void *user;
};

int pare_sensitivity_analysis(const struct pare_model *m, const struct pare_data *data,
                              const struct pare_sensitivity_opts *o, struct pare_analysis *x,
                              struct pare_arena *a, struct pare_sensitivity_report *r,
                              struct pare_err *err);
int pare_quant_error_analysis(const struct pare_model *m, const struct pare_tensor *in,
                              const struct pare_quant_error_opts *o, struct pare_dist *dist,
                              struct pare_arena *a, struct pare_quant_error_report *r,
                              struct pare_err *err);

#endif
