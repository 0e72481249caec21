/* analyze_print.h - print the results of pare analyze as tables, CSV or JSON. */
#ifndef PARE_CLI_PRINT_ANALYZE_PRINT_H
#define PARE_CLI_PRINT_ANALYZE_PRINT_H

#include "../cli.h"
#include "../../pipeline/analyses.h"

void pare_count_print(const struct pare_count_report *n, struct pare_arena *a);
struct json_t *pare_count_json(const struct pare_count_report *n, bool full);

/* `metric`: what was measured; its value is not used. */
void pare_sensitivity_print(const struct pare_sensitivity_report *s, struct pare_arena *a,
                            const struct pare_metric_value *metric);
struct json_t *pare_sensitivity_json(const struct pare_sensitivity_report *s, const char *pruner,
                                     const struct pare_metric_value *metric);
int pare_sensitivity_csv(const struct pare_sensitivity_report *s, const char *path,
                         struct pare_err *err);

void pare_quant_error_print(const struct pare_quant_error_report *q, struct pare_arena *a);
struct json_t *pare_quant_error_json(const struct pare_quant_error_report *q, bool weights_only);
int pare_quant_error_csv(const struct pare_quant_error_report *q, const char *path,
                         struct pare_err *err);

#endif
