/* analyze_print.h - print the results of pare analyze as tables, CSV or JSON. */
#ifndef PARE_CLI_PRINT_ANALYZE_PRINT_H
#define PARE_CLI_PRINT_ANALYZE_PRINT_H

#include "../cli.h"
#include "../../analyze/quant_error.h"
#include "../../analyze/sensitivity.h"
#include "../../graph/macs.h"

void pare_count_print(const struct pare_count *n, struct pare_arena *a);
struct json_t *pare_count_json(const struct pare_count *n, bool full);

/* `loss`: the metric is a loss; else an accuracy between 0 and 1. */
void pare_sensitivity_print(const struct pare_sensitivity *s, struct pare_arena *a, bool loss);
struct json_t *pare_sensitivity_json(const struct pare_sensitivity *s, const char *metric);
int pare_sensitivity_csv(const struct pare_sensitivity *s, const char *path, struct pare_err *err);

void pare_qerror_print(const struct pare_qerror *q, struct pare_arena *a);
struct json_t *pare_qerror_json(const struct pare_qerror *q);
int pare_qerror_csv(const struct pare_qerror *q, const char *path, struct pare_err *err);

#endif
